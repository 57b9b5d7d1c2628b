// TLS between bytes and bytes; whoever has the socket moves them. OpenSSL is behind it, where the build has it.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace easydel::serve {

class HttpTlsSession {
 public:
  class Impl;
  explicit HttpTlsSession(std::unique_ptr<Impl> impl);
  ~HttpTlsSession();

  // Bytes from the client. Appends what they say to `text`; false when the connection is broken. Either way there may
  // be something in take_output(): the handshake, or an alert.
  bool receive(std::string_view bytes, std::string& text);
  bool is_ready() const;   // the handshake is done: send may be called
  bool has_ended() const;  // the client said that it sends no more
  bool send(std::string_view text);
  void end();                 // tells the client that no more comes
  std::string take_output();  // what is to go to the client

 private:
  std::unique_ptr<Impl> impl_;
};

class HttpTls {
 public:
  // PEM files: the certificate, with its chain, and its key. ConfigError, or NotSupportedError without OpenSSL.
  HttpTls(const std::string& certificate_file, const std::string& key_file);
  ~HttpTls();
  std::unique_ptr<HttpTlsSession> accept() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace easydel::serve
