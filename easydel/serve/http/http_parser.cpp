#include "easydel/serve/http/http_parser.h"

#include <utility>  // before Asio 1.74, which forgets it

#include <boost/asio/buffer.hpp>
#include <boost/beast/http/basic_parser.hpp>
#include <boost/beast/http/error.hpp>

#include "easydel/core/error.h"
#include "easydel/serve/http/http_message.h"

namespace easydel::serve {

namespace beast_http = boost::beast::http;

class HttpParser::Impl final : public beast_http::basic_parser<true> {
 public:
  using Code = boost::beast::error_code;
  using Text = boost::beast::string_view;

  explicit Impl(const HttpLimits& limits) : limits_(limits) {
    header_limit(static_cast<std::uint32_t>(limits.header_bytes));
    body_limit(static_cast<std::uint64_t>(limits.body_bytes));
    eager(false);  // one part at a time: in Boost 1.74 an eager parser goes on after an error
  }

  std::size_t put_bytes(std::string_view bytes);
  void fail_with(int status, const char* message) {
    status_ = status;
    message_ = message;
  }

  HttpRequest request_;
  int status_ = 0;
  std::string message_;
  bool is_http_1_0_ = false;
  bool expects_continue_ = false;

 private:
  static std::string_view view(Text text) { return {text.data(), text.size()}; }
  // Any error of Beast's stops it; ours is already noted.
  void refuse(int status, const char* message, Code& ec) {
    fail_with(status, message);
    ec = beast_http::make_error_code(beast_http::error::bad_value);
  }
  void note(const Code& ec);

  void on_request_impl(beast_http::verb, Text method, Text target, int version, Code& ec) override {
    is_http_1_0_ = version == 10;
    request_.method = view(method);
    if (!http_read_target(view(target), request_)) refuse(400, "The target of the request is not a valid path.", ec);
  }

  void on_response_impl(int, Text, int, Code&) override {}

  void on_field_impl(beast_http::field, Text name, Text value, Code& ec) override {
    if (is_header_done()) return;  // a trailer, which nobody asks for
    if (static_cast<int64_t>(request_.headers.size()) >= limits_.headers) {
      return refuse(431, "The request has too many headers.", ec);
    }
    if (view(value).find('\0') != std::string_view::npos) return refuse(400, "A header holds a NUL.", ec);
    request_.headers.emplace_back(http_lower(view(name)), view(value));
  }

  void on_header_impl(Code& ec) override;
  void on_body_init_impl(const boost::optional<std::uint64_t>&, Code&) override {}

  std::size_t on_body_impl(Text body, Code&) override {
    request_.body.append(body.data(), body.size());  // grows with what came, not with what was announced
    return body.size();
  }

  void on_chunk_header_impl(std::uint64_t, Text, Code&) override {}
  std::size_t on_chunk_body_impl(std::uint64_t, Text body, Code& ec) override { return on_body_impl(body, ec); }
  void on_finish_impl(Code&) override {}

  HttpLimits limits_;
  int64_t header_bytes_ = 0;
};

void HttpParser::Impl::on_header_impl(Code& ec) {
  int hosts = 0;
  for (const auto& [name, value] : request_.headers) {
    hosts += name == "host" ? 1 : 0;
    if (name == "transfer-encoding") {
      // Two readers that disagree about where a body ends can be played against each other.
      if (is_http_1_0_) return refuse(400, "Transfer-Encoding is not part of HTTP/1.0.", ec);
      if (!http_equal(value, "chunked")) return refuse(501, "Only chunked Transfer-Encoding is supported.", ec);
    }
    if (name == "expect") {
      if (!http_equal(value, "100-continue")) return refuse(417, "Only Expect: 100-continue is supported.", ec);
      expects_continue_ = !is_http_1_0_;
    }
  }
  if (hosts > 1 || (hosts == 0 && !is_http_1_0_)) return refuse(400, "The request needs one Host header.", ec);
}

// Feeds it part by part until it wants more, is done, or has failed.
std::size_t HttpParser::Impl::put_bytes(std::string_view bytes) {
  std::size_t taken = 0;
  while (status_ == 0 && !is_done() && taken < bytes.size()) {
    Code ec;
    const bool in_header = !is_header_done();
    const std::size_t some = put(boost::asio::buffer(bytes.data() + taken, bytes.size() - taken), ec);
    taken += some;
    if (in_header) header_bytes_ += static_cast<int64_t>(some);
    if (ec == beast_http::error::need_more) {
      // It takes headers one by one, and lines between chunks only whole: the sum has a limit too.
      const auto rest = static_cast<int64_t>(bytes.size() - taken);
      if ((is_header_done() ? 0 : header_bytes_) + rest > limits_.header_bytes) {
        fail_with(431, "The header of the request is too large.");
      }
      break;
    }
    if (ec && status_ == 0) note(ec);
    if (in_header && status_ == 0 && header_bytes_ > limits_.header_bytes) {
      fail_with(431, "The header of the request is too large.");
    }
  }
  return taken;
}

void HttpParser::Impl::note(const Code& ec) {
  using E = beast_http::error;
  if (ec == E::body_limit) return fail_with(413, "The body of the request is too large.");
  if (ec == E::header_limit) return fail_with(431, "The header of the request is too large.");
  if (ec == E::bad_version) return fail_with(505, "The version of HTTP must be 1.0 or 1.1.");
  fail_with(400, "");
  message_ = concat("The request is not valid HTTP: ", ec.message(), ".");
}

HttpParser::HttpParser(const HttpLimits& limits) : impl_(std::make_unique<Impl>(limits)) {}
HttpParser::~HttpParser() = default;
std::size_t HttpParser::put(std::string_view bytes) { return impl_->put_bytes(bytes); }
bool HttpParser::has_header() const { return impl_->is_header_done(); }
bool HttpParser::is_done() const { return impl_->status_ == 0 && impl_->is_done(); }
int HttpParser::error_status() const { return impl_->status_; }
const std::string& HttpParser::error_message() const { return impl_->message_; }
HttpRequest& HttpParser::request() { return impl_->request_; }
bool HttpParser::is_http_1_0() const { return impl_->is_http_1_0_; }
bool HttpParser::keep_alive() const { return impl_->is_header_done() && impl_->keep_alive(); }
bool HttpParser::expects_continue() const { return impl_->expects_continue_; }

}  // namespace easydel::serve
