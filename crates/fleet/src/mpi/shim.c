/* The few calls of MPI that a role maker needs, with plain C types.
 *
 * Handles (MPI_Comm, MPI_Op, …) are pointers in one implementation and numbers in another; behind
 * these functions any of them will do. Every function returns 0, or MPI's error code. */

#include <mpi.h>
#include <string.h>

/* 0: all processes; 1: those of this process's role. */
static MPI_Comm communicators[2] = {MPI_COMM_NULL, MPI_COMM_NULL};

int bireme_mpi_init(int *rank, int *size) {
    int done = 0, provided = 0, code = MPI_Initialized(&done);
    if (code == MPI_SUCCESS && !done)
        code = MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &provided);
    if (code != MPI_SUCCESS) return code;
    /* Errors are returned and become messages of ours; by default they end the process. */
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (communicators[0] == MPI_COMM_NULL) {
        code = MPI_Comm_dup(MPI_COMM_WORLD, &communicators[0]);
        if (code != MPI_SUCCESS) return code;
    }
    MPI_Comm_rank(communicators[0], rank);
    return MPI_Comm_size(communicators[0], size);
}

int bireme_mpi_split(int color) {
    if (communicators[1] != MPI_COMM_NULL) MPI_Comm_free(&communicators[1]);
    return MPI_Comm_split(communicators[0], color, 0, &communicators[1]);
}

int bireme_mpi_group(int which, int *rank, int *size) {
    MPI_Comm_rank(communicators[which], rank);
    return MPI_Comm_size(communicators[which], size);
}

int bireme_mpi_barrier(int which) { return MPI_Barrier(communicators[which]); }

int bireme_mpi_lengths(int which, int own, int *all) {
    return MPI_Allgather(&own, 1, MPI_INT, all, 1, MPI_INT, communicators[which]);
}

int bireme_mpi_gather(int which, const void *own, int length, void *all, const int *lengths,
                      const int *offsets) {
    return MPI_Allgatherv(own, length, MPI_BYTE, all, lengths, offsets, MPI_BYTE,
                          communicators[which]);
}

int bireme_mpi_error(int code, char *text, int room) {
    char full[MPI_MAX_ERROR_STRING];
    int length = 0;
    if (MPI_Error_string(code, full, &length) != MPI_SUCCESS || length >= room) return 0;
    memcpy(text, full, (size_t)length);
    return length;
}

int bireme_mpi_finalize(void) {
    int done = 0;
    MPI_Finalized(&done);
    return done ? MPI_SUCCESS : MPI_Finalize();
}
