//! Dense parameter blocks on a server, updated by the optimize blocks of its program.
