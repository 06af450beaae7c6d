// Ranks of other processes: what they bring to an exchange comes over a socket, as a card's own wires would bring it.
//
// Nothing here waits for another process but a thread that sends, and sockets have no names in the file system, so that
// nothing is left of a process that is killed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace card {

/// What stands before the bytes of a message.
struct Head {
  /// Whether it is a part of a call of all ranks; otherwise it goes to one rank alone.
  int32_t is_call;
  int32_t kind, type, how, root;
  uint64_t count, bytes;
};

/// The way to one rank of another process.
class Link {
 public:
  explicit Link(int socket);
  /// Waits a moment for what has not been sent yet.
  ~Link();
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  /// Sends some time later.
  void send(const Head& head, const std::vector<char>& data);
  /// The next message, if all of it is here.
  bool receive(Head& head, std::vector<char>& data);

 private:
  struct Sending;
  int socket;
  std::shared_ptr<Sending> sending;
  std::vector<char> arrived;
};

/// Where rank `rank` of a group is found by the others; negative when it cannot be.
int listen_as(const std::string& group, int rank);

/// A connection to a rank that listens; negative when it does not yet.
int connect_to(const std::string& group, int rank, int own);

/// The next rank that has connected, and its number; negative when there is none.
int accept_from(int listener, int& rank);

}  // namespace card
