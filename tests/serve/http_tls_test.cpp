#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "easydel/core/build_info.h"
#include "easydel/core/error.h"
#include "easydel/serve/http/http_server.h"
#include "http_client.h"

namespace easydel::serve {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;
using testing_http::any_port;
using testing_http::Client;
using testing_http::echo;
using testing_http::get;

// The client is the openssl command.
class HttpTlsServer : public testing::Test {
 protected:
  void SetUp() override {
    if (!EASYDEL_HAS_OPENSSL) GTEST_SKIP() << "no OpenSSL in this build";
    if (std::system("openssl version > /dev/null 2>&1") != 0) GTEST_SKIP() << "no openssl command here";
    directory_ = testing::TempDir() + "http_tls_" + std::to_string(::getpid());
    std::filesystem::create_directories(directory_);
    options_.tls_cert = directory_ + "/cert.pem";
    options_.tls_key = directory_ + "/key.pem";
    const std::string make =
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj "
        "/CN=localhost -keyout " +
        options_.tls_key + " -out " + options_.tls_cert + " 2> /dev/null";
    ASSERT_EQ(std::system(make.c_str()), 0);
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  std::string ask(uint16_t port, const std::string& request, const std::string& flags = "") const {
    std::ofstream(directory_ + "/request", std::ios::binary) << request;
    const std::string command = "openssl s_client -quiet -verify_return_error -CAfile " + options_.tls_cert + " " +
                                flags + " -connect 127.0.0.1:" + std::to_string(port) + " < " + directory_ +
                                "/request 2> /dev/null";
    FILE* pipe = ::popen(command.c_str(), "r");
    std::string answer;
    char buffer[4096];
    while (const std::size_t size = std::fread(buffer, 1, sizeof buffer, pipe)) answer.append(buffer, size);
    ::pclose(pipe);
    return answer;
  }

  HttpOptions options_ = any_port();
  std::string directory_;
};

TEST_F(HttpTlsServer, TalksTls) {
  HttpServer server(options_, echo);
  const std::string body(300'000, 'z');
  const std::string request = get("/first") + "POST /p HTTP/1.1\r\nHost: t\r\nConnection: close\r\nContent-Length: " +
                              std::to_string(body.size()) + "\r\n\r\n" + body;
  for (const char* version : {"-tls1_2", "-tls1_3 -alpn h2,http/1.1"}) {
    const std::string answer = ask(server.port(), request, version);
    EXPECT_THAT(answer, HasSubstr("GET /first [] "));
    EXPECT_TRUE(answer.ends_with("POST /p [] " + body)) << version << ": " << answer.size() << " bytes";
  }
  EXPECT_EQ(ask(server.port(), request, "-tls1_1"), "");
  Client plain(server.port());
  plain.send(get("/"));
  EXPECT_THAT(plain.read_all(), Not(HasSubstr("HTTP/1.1 200")));
  EXPECT_FALSE(plain.timed_out());
}

TEST_F(HttpTlsServer, RefusesAKeyThatIsNone) {
  options_.tls_key = options_.tls_cert;
  try {
    HttpServer(options_, echo);
    FAIL() << "accepted";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), StartsWith("[HttpServer] tls_key must be a PEM file with the key of tls_cert; got \""));
  }
}

}  // namespace
}  // namespace easydel::serve
