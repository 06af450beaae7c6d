//! Collective communication among the ranks of a job: all-reduce, all-gather, broadcast and their
//! kin, over sockets between hosts and shared memory within one.
