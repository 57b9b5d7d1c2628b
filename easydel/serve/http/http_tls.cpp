#include "easydel/serve/http/http_tls.h"

#include "easydel/core/build_info.h"
#include "easydel/core/error.h"

#if EASYDEL_HAS_OPENSSL
#include <openssl/err.h>
#include <openssl/ssl.h>

#include <array>
#endif

namespace easydel::serve {

#if EASYDEL_HAS_OPENSSL

namespace {

std::string http_tls_reason() {
  const unsigned long code = ERR_peek_last_error();
  const char* reason = code ? ERR_reason_error_string(code) : nullptr;
  ERR_clear_error();
  return reason ? reason : "unknown";
}

// Clients that offer HTTP/2 too are told that it is HTTP/1.1.
int http_tls_choose_protocol(SSL*, const unsigned char** out, unsigned char* out_size, const unsigned char* in,
                             unsigned in_size, void*) {
  static constexpr unsigned char kOurs[] = "\x08http/1.1";
  unsigned char* chosen = nullptr;
  if (SSL_select_next_proto(&chosen, out_size, kOurs, sizeof kOurs - 1, in, in_size) != OPENSSL_NPN_NEGOTIATED) {
    return SSL_TLSEXT_ERR_NOACK;
  }
  *out = chosen;
  return SSL_TLSEXT_ERR_OK;
}

}  // namespace

class HttpTls::Impl {
 public:
  std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context{nullptr, &SSL_CTX_free};
};

class HttpTlsSession::Impl {
 public:
  std::unique_ptr<SSL, decltype(&SSL_free)> ssl{nullptr, &SSL_free};
  BIO* in = nullptr;  // the session's
  BIO* out = nullptr;
};

HttpTls::HttpTls(const std::string& certificate_file, const std::string& key_file) : impl_(std::make_unique<Impl>()) {
  ERR_clear_error();
  impl_->context.reset(SSL_CTX_new(TLS_server_method()));
  SSL_CTX* context = impl_->context.get();
  require<ConfigError>(context != nullptr, "[HttpServer] TLS cannot be set up: ", http_tls_reason(), ".");
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);  // an idle connection keeps no 32 KiB
  SSL_CTX_set_alpn_select_cb(context, &http_tls_choose_protocol, nullptr);
  require<ConfigError>(SSL_CTX_use_certificate_chain_file(context, certificate_file.c_str()) == 1,
                       "[HttpServer] tls_cert must be a PEM file with a certificate; got \"", certificate_file,
                       "\": ", http_tls_reason(), ".");
  require<ConfigError>(SSL_CTX_use_PrivateKey_file(context, key_file.c_str(), SSL_FILETYPE_PEM) == 1,
                       "[HttpServer] tls_key must be a PEM file with the key of tls_cert; got \"", key_file,
                       "\": ", http_tls_reason(), ".");
  require<ConfigError>(SSL_CTX_check_private_key(context) == 1,
                       "[HttpServer] tls_key must be the key of tls_cert; got \"", key_file, "\": ", http_tls_reason(),
                       ".");
}

HttpTls::~HttpTls() = default;

std::unique_ptr<HttpTlsSession> HttpTls::accept() const {
  auto impl = std::make_unique<HttpTlsSession::Impl>();
  impl->ssl.reset(SSL_new(impl_->context.get()));
  impl->in = BIO_new(BIO_s_mem());
  impl->out = BIO_new(BIO_s_mem());
  if (!impl->ssl || !impl->in || !impl->out) throw std::bad_alloc();
  SSL_set_bio(impl->ssl.get(), impl->in, impl->out);
  SSL_set_accept_state(impl->ssl.get());
  return std::make_unique<HttpTlsSession>(std::move(impl));
}

bool HttpTlsSession::receive(std::string_view bytes, std::string& text) {
  SSL* ssl = impl_->ssl.get();
  ERR_clear_error();
  if (BIO_write(impl_->in, bytes.data(), static_cast<int>(bytes.size())) != static_cast<int>(bytes.size()))
    return false;
  std::array<char, 16 << 10> plain;
  for (;;) {
    const int size = SSL_read(ssl, plain.data(), static_cast<int>(plain.size()));  // does the handshake too
    if (size > 0) {
      text.append(plain.data(), static_cast<std::size_t>(size));
      continue;
    }
    const int error = SSL_get_error(ssl, size);
    ERR_clear_error();
    return error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE || error == SSL_ERROR_ZERO_RETURN;
  }
}

bool HttpTlsSession::is_ready() const { return SSL_is_init_finished(impl_->ssl.get()) == 1; }
bool HttpTlsSession::has_ended() const { return (SSL_get_shutdown(impl_->ssl.get()) & SSL_RECEIVED_SHUTDOWN) != 0; }

bool HttpTlsSession::send(std::string_view text) {
  ERR_clear_error();
  const int size = SSL_write(impl_->ssl.get(), text.data(), static_cast<int>(text.size()));
  ERR_clear_error();
  return size == static_cast<int>(text.size());  // there is always room in memory
}

void HttpTlsSession::end() {
  if (is_ready()) SSL_shutdown(impl_->ssl.get());
  ERR_clear_error();
}

std::string HttpTlsSession::take_output() {
  std::string bytes(BIO_ctrl_pending(impl_->out), '\0');
  if (!bytes.empty()) BIO_read(impl_->out, bytes.data(), static_cast<int>(bytes.size()));
  return bytes;
}

#else

class HttpTls::Impl {};
class HttpTlsSession::Impl {};

HttpTls::HttpTls(const std::string&, const std::string&) {
  fail<NotSupportedError>(
      "[HttpServer] tls_cert and tls_key need OpenSSL, and this build has none. Install libssl-dev and "
      "build again, or leave them empty and put a proxy with TLS in front.");
}
HttpTls::~HttpTls() = default;
std::unique_ptr<HttpTlsSession> HttpTls::accept() const { return nullptr; }
bool HttpTlsSession::receive(std::string_view, std::string&) { return false; }
bool HttpTlsSession::is_ready() const { return false; }
bool HttpTlsSession::has_ended() const { return true; }
bool HttpTlsSession::send(std::string_view) { return false; }
void HttpTlsSession::end() {}
std::string HttpTlsSession::take_output() { return {}; }

#endif

HttpTlsSession::HttpTlsSession(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HttpTlsSession::~HttpTlsSession() = default;

}  // namespace easydel::serve
