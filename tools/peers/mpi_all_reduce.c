/* All-reduce of Open MPI, timed on command: rank 0 reads lines "BYTES CALLS" from its standard input
 * and answers each with the seconds that one call took on the slowest rank. Between two commands the
 * ranks sleep, so that they do not disturb whoever is measured then. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static void wait_idly(MPI_Request *request)
{
    const struct timespec pause = {0, 20 * 1000 * 1000};
    int done = 0;
    while (MPI_Test(request, &done, MPI_STATUS_IGNORE), !done)
        nanosleep(&pause, NULL);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) {
        printf("ready\n");
        fflush(stdout);
    }
    for (;;) {
        long long command[2] = {0, 0};
        if (rank == 0 && scanf("%lld %lld", &command[0], &command[1]) != 2)
            command[1] = 0;
        MPI_Request request;
        MPI_Ibcast(command, 2, MPI_LONG_LONG, 0, MPI_COMM_WORLD, &request);
        wait_idly(&request);
        if (command[1] == 0)
            break;
        size_t count = command[0] / sizeof(float);
        float *data = malloc(command[0]);
        for (size_t at = 0; at < count; at++)
            data[at] = 1.0f;
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Allreduce(MPI_IN_PLACE, data, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        MPI_Barrier(MPI_COMM_WORLD);
        double start = MPI_Wtime();
        for (long long call = 0; call < command[1]; call++)
            MPI_Allreduce(MPI_IN_PLACE, data, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        double own = (MPI_Wtime() - start) / command[1], slowest = 0;
        MPI_Reduce(&own, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
        free(data);
        if (rank == 0) {
            printf("%.9e\n", slowest);
            fflush(stdout);
        }
    }
    MPI_Finalize();
    return 0;
}
