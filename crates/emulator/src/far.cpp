// Sockets between ranks of several processes. See `far.hpp`.
#include "far.hpp"

#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <thread>

namespace card {

struct Link::Sending {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::vector<char>> messages;
  bool closed = false, idle = true;
};

namespace {

bool send_all(int socket, const char* at, size_t left) {
  while (left) {
    ssize_t sent = send(socket, at, left, MSG_NOSIGNAL);
    if (sent <= 0) return false;
    at += sent;
    left -= static_cast<size_t>(sent);
  }
  return true;
}

/// An address without a file.
socklen_t address_of(const std::string& group, int rank, sockaddr_un& address) {
  std::memset(&address, 0, sizeof address);
  address.sun_family = AF_UNIX;
  std::string name = group + " " + std::to_string(rank);
  size_t length = std::min(name.size(), sizeof address.sun_path - 1);
  std::memcpy(address.sun_path + 1, name.data(), length);
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
}

}  // namespace

Link::Link(int given) : socket(given), sending(std::make_shared<Sending>()) {
  std::thread([sending = sending, given] {
    std::unique_lock<std::mutex> lock(sending->mutex);
    for (bool works = true;;) {
      sending->changed.wait(lock, [&] { return sending->closed || !sending->messages.empty(); });
      if (sending->messages.empty()) break;
      auto message = std::move(sending->messages.front());
      sending->messages.pop_front();
      sending->idle = false;
      lock.unlock();
      // Who is gone gets nothing; whoever waits for it is told by others.
      works = works && send_all(given, message.data(), message.size());
      lock.lock();
      sending->idle = true;
      sending->changed.notify_all();
    }
    close(given);
  }).detach();
}

Link::~Link() {
  std::unique_lock<std::mutex> lock(sending->mutex);
  sending->changed.wait_for(lock, std::chrono::seconds(1), [&] { return sending->messages.empty() && sending->idle; });
  sending->messages.clear();
  sending->closed = true;
  sending->changed.notify_all();
}

void Link::send(const Head& head, const std::vector<char>& data) {
  std::vector<char> message(sizeof head + data.size());
  std::memcpy(message.data(), &head, sizeof head);
  std::copy(data.begin(), data.end(), message.begin() + sizeof head);
  std::lock_guard<std::mutex> lock(sending->mutex);
  sending->messages.push_back(std::move(message));
  sending->changed.notify_all();
}

bool Link::receive(Head& head, std::vector<char>& data) {
  char part[65536];
  for (ssize_t got; (got = recv(socket, part, sizeof part, MSG_DONTWAIT)) > 0;)
    arrived.insert(arrived.end(), part, part + got);
  if (arrived.size() < sizeof head) return false;
  std::memcpy(&head, arrived.data(), sizeof head);
  if (arrived.size() - sizeof head < head.bytes) return false;
  auto start = arrived.begin() + sizeof head, end = start + static_cast<long>(head.bytes);
  data.assign(start, end);
  arrived.erase(arrived.begin(), end);
  return true;
}

int listen_as(const std::string& group, int rank) {
  sockaddr_un address;
  socklen_t length = address_of(group, rank, address);
  int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (listener < 0) return -1;
  if (!bind(listener, reinterpret_cast<sockaddr*>(&address), length) && !listen(listener, 64)) return listener;
  close(listener);
  return -1;
}

int connect_to(const std::string& group, int rank, int own) {
  sockaddr_un address;
  socklen_t length = address_of(group, rank, address);
  int made = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (made < 0) return -1;
  int32_t number = own;
  if (!connect(made, reinterpret_cast<sockaddr*>(&address), length) &&
      send_all(made, reinterpret_cast<char*>(&number), sizeof number))
    return made;
  close(made);
  return -1;
}

int accept_from(int listener, int& rank) {
  int made = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
  if (made < 0) return -1;
  timeval second{1, 0};
  setsockopt(made, SOL_SOCKET, SO_RCVTIMEO, &second, sizeof second);
  int32_t number = -1;
  if (recv(made, &number, sizeof number, MSG_WAITALL) != sizeof number) {
    close(made);
    return -1;
  }
  rank = number;
  return made;
}

}  // namespace card
