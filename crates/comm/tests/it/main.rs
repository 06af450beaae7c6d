//! Clients and servers together, over real sockets and over memory.

mod calls;
