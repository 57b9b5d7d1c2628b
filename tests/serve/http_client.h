// A client on a raw socket, which can be as rude as a test needs. Nothing in it waits longer than 20 s.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

#include "easydel/serve/http/http_server.h"

namespace easydel::serve::testing_http {

class Client {
 public:
  explicit Client(uint16_t port, int receive_buffer = 0) : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    if (receive_buffer > 0) ::setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    const timeval limit{.tv_sec = 20, .tv_usec = 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    ::setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    is_connected_ = ::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  }
  ~Client() { leave(); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  bool is_connected() const { return is_connected_; }
  void leave() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }
  void end_sending() { ::shutdown(fd_, SHUT_WR); }

  // False when the server does not take it all.
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t size = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (size <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(size));
    }
    return true;
  }

  // The next bytes up to and with `end`, or all there are when the connection ends before.
  std::string read_until(std::string_view end) {
    std::size_t at = 0;
    while ((at = read_.find(end)) == std::string::npos) {
      if (!receive()) return std::exchange(read_, {});
    }
    return cut(at + end.size());
  }
  std::string read_exactly(std::size_t size) {
    while (read_.size() < size && receive()) {
    }
    return cut(std::min(size, read_.size()));
  }
  std::string read_all() {
    while (receive()) {
    }
    return std::exchange(read_, {});
  }
  bool timed_out() const { return timed_out_; }

  struct Answer {
    int status = 0;
    std::string head, body;
  };
  // One answer, by its Content-Length or its chunks.
  Answer read_answer(bool has_body = true) {
    Answer answer;
    answer.head = read_until("\r\n\r\n");
    if (answer.head.size() > 12) answer.status = std::atoi(answer.head.c_str() + 9);
    if (!has_body) return answer;
    if (answer.head.find("Transfer-Encoding: chunked") != std::string::npos) {
      while (const std::size_t size = std::strtoul(read_until("\r\n").c_str(), nullptr, 16)) {
        answer.body += read_exactly(size);
        EXPECT_EQ(read_exactly(2), "\r\n");
      }
      EXPECT_EQ(read_exactly(2), "\r\n");
    } else if (const std::size_t at = answer.head.find("Content-Length: "); at != std::string::npos) {
      answer.body = read_exactly(std::strtoul(answer.head.c_str() + at + 16, nullptr, 10));
    }
    return answer;
  }
  Answer ask(std::string_view request) {
    send(request);
    return read_answer();
  }

 private:
  bool receive() {
    char buffer[16384];
    const ssize_t size = ::recv(fd_, buffer, sizeof buffer, 0);
    timed_out_ = size < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
    if (size > 0) read_.append(buffer, static_cast<std::size_t>(size));
    return size > 0;
  }
  std::string cut(std::size_t size) {
    std::string first = read_.substr(0, size);
    read_.erase(0, size);
    return first;
  }

  int fd_ = -1;
  bool is_connected_ = false, timed_out_ = false;
  std::string read_;
};

inline HttpOptions any_port() {
  HttpOptions options;
  options.port = 0;
  return options;
}

inline std::string get(std::string_view target) {
  return "GET " + std::string(target) + " HTTP/1.1\r\nHost: test\r\n\r\n";
}

// Answers with what it understood.
inline void echo(HttpRequest request, const HttpReply& reply) {
  HttpResponse response;
  response.content_type = "text/plain";
  response.body = request.method + " " + request.path + " [" + request.query + "] " + request.body;
  reply.send(std::move(response));
}

}  // namespace easydel::serve::testing_http
