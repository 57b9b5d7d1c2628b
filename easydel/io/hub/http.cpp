#include "easydel/io/hub/http.h"

#include <algorithm>
#include <cctype>

#include "easydel/core/build_info.h"
#include "easydel/io/hub/public_address.h"
#include "easydel/io/hub/url.h"
#include "easydel/io/parallel.h"

#if EASYDEL_HAS_CURL
#include <curl/curl.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <exception>
#include <mutex>
#endif

namespace easydel {

std::string HttpResponse::header(std::string_view name) const {
  const auto same = [](char a, char b) { return std::tolower(static_cast<unsigned char>(a)) == std::tolower(b); };
  for (const auto& [key, value] : headers) {
    if (std::equal(key.begin(), key.end(), name.begin(), name.end(), same)) return value;
  }
  return "";
}

#if EASYDEL_HAS_CURL

namespace {

constexpr int kMaxRedirects = 10;

// libcurl writes to a socket that the other side may have closed; SIGPIPE must not end the process.
class SigpipeGuard {
 public:
  SigpipeGuard() {
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    sigemptyset(&set_);
    sigaddset(&set_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &set_, &before_);
  }
  ~SigpipeGuard() {
    const timespec now{};
    if (!was_pending_) {
      while (sigtimedwait(&set_, nullptr, &now) == -1 && errno == EINTR) {
      }
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

 private:
  sigset_t set_{};
  sigset_t before_{};
  bool was_pending_ = false;
};

// For messages: the query of a signed URL is a secret.
std::string without_query(const std::string& url) { return url.substr(0, url.find('?')); }

std::string trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r\n");
  if (first == text.npos) return "";
  return std::string(text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1));
}

// Shared by the callbacks of one hop. An exception must not cross libcurl's C frames: it is stored here.
struct Transfer {
  const HttpRequest& request;
  HttpResponse& response;
  std::stop_token stop;
  std::chrono::seconds silence_limit;
  std::size_t max_body;
  std::size_t header_bytes = 0;
  int64_t sent = 0;
  int64_t moved = -1;  // bytes in both directions at the last check
  std::chrono::steady_clock::time_point moved_at;
  bool cancelled = false;
  bool silent = false;
  bool is_private = false;  // an address that it may not connect to
  std::exception_ptr error;
};

std::size_t on_header(char* data, std::size_t, std::size_t size, void* user) {
  constexpr std::size_t kMaxHeaders = 1 << 20;
  auto& transfer = *static_cast<Transfer*>(user);
  HttpResponse& response = transfer.response;
  try {
    transfer.header_bytes += size;
    require<FormatError>(transfer.header_bytes <= kMaxHeaders, "[http] ", without_query(response.url),
                         ": the headers are larger than 1 MiB.");
    const std::string_view line(data, size);
    if (line.starts_with("HTTP/")) {  // also the final status after "100 Continue"
      response.headers.clear();
      const auto space = line.find(' ');
      response.status = space == line.npos ? 0 : std::atoi(std::string(line.substr(space)).c_str());
    } else if (const auto colon = line.find(':'); colon != line.npos) {
      response.headers.emplace_back(std::string(line.substr(0, colon)), trimmed(line.substr(colon + 1)));
    }
    return size;
  } catch (...) {
    transfer.error = std::current_exception();
    return 0;
  }
}

double megabytes(const Transfer& transfer) { return static_cast<double>(transfer.max_body) / (1 << 20); }

std::size_t on_body(char* data, std::size_t, std::size_t size, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  try {
    if (transfer.request.on_body && transfer.response.ok()) {
      transfer.request.on_body(transfer.response, {data, size});
    } else {
      require<FormatError>(transfer.response.body.size() + size <= transfer.max_body, "[http] ",
                           without_query(transfer.response.url), ": the response is larger than ", megabytes(transfer),
                           " MiB.");
      transfer.response.body.append(data, size);
    }
  } catch (...) {
    transfer.error = std::current_exception();
    return 0;
  }
  return size;
}

std::size_t on_read(char* into, std::size_t, std::size_t room, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  const auto& [fd, offset, size] = transfer.request.file;
  const auto wanted = static_cast<std::size_t>(std::min<int64_t>(static_cast<int64_t>(room), size - transfer.sent));
  const ssize_t got = wanted == 0 ? 0 : pread(fd, into, wanted, offset + transfer.sent);
  if (got < 0 || (got == 0 && wanted > 0)) {
    transfer.error = std::make_exception_ptr(
        IoError(concat("[http] the file to send ", got < 0 ? "cannot be read: " + errno_text(errno) : "was truncated",
                       ", at byte ", offset + transfer.sent, ".")));
    return CURL_READFUNC_ABORT;
  }
  transfer.sent += got;
  return static_cast<std::size_t>(got);
}

int on_seek(void* user, curl_off_t offset, int origin) {
  if (origin != SEEK_SET) return CURL_SEEKFUNC_CANTSEEK;
  static_cast<Transfer*>(user)->sent = offset;
  return CURL_SEEKFUNC_OK;
}

// Called about once a second when nothing moves.
int on_progress(void* user, curl_off_t, curl_off_t received, curl_off_t, curl_off_t sent) {
  auto& transfer = *static_cast<Transfer*>(user);
  const auto now = std::chrono::steady_clock::now();
  if (transfer.moved != received + sent) {
    transfer.moved = received + sent;
    transfer.moved_at = now;
    if (transfer.request.on_sent) transfer.request.on_sent(sent);
  }
  transfer.silent = now - transfer.moved_at > transfer.silence_limit;
  transfer.cancelled = transfer.stop.stop_requested();
  return transfer.cancelled || transfer.silent ? 1 : 0;
}

// Called with each address before libcurl connects to it.
curl_socket_t open_public_socket(void* user, curlsocktype, curl_sockaddr* address) {
  if (!is_public_address(&address->addr)) {
    static_cast<Transfer*>(user)->is_private = true;
    return CURL_SOCKET_BAD;
  }
  return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

struct HeaderList {
  curl_slist* list = nullptr;
  ~HeaderList() { curl_slist_free_all(list); }
  void add(const std::string& line) { list = curl_slist_append(list, line.c_str()); }
};

bool never_sent(CURLcode code) {
  return code == CURLE_COULDNT_CONNECT || code == CURLE_COULDNT_RESOLVE_HOST || code == CURLE_COULDNT_RESOLVE_PROXY ||
         code == CURLE_SSL_CONNECT_ERROR || code == CURLE_PEER_FAILED_VERIFICATION;
}

}  // namespace

struct HttpClient::Connection {
  HttpClientOptions options;
  std::string trusted_origin;
  CURL* curl = nullptr;

  ~Connection() { curl_easy_cleanup(curl); }

  HttpResponse hop(const HttpRequest& request, const std::string& address, std::chrono::milliseconds left);
};

HttpClient::HttpClient(HttpClientOptions options) : connection_(std::make_unique<Connection>()) {
  static std::once_flag once;
  std::call_once(once, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
  // The value goes into a header line, where a line break would begin the next one.
  require<ConfigError>(
      std::none_of(options.token.begin(), options.token.end(), [](unsigned char c) { return c <= ' ' || c >= 127; }),
      "[http] a token must be printable characters without spaces.");
  if (!options.trusted_url.empty()) connection_->trusted_origin = url_origin(options.trusted_url);
  connection_->options = std::move(options);
  connection_->curl = curl_easy_init();
  require<IoError>(connection_->curl != nullptr, "[http] libcurl cannot be initialized.");
}

HttpClient::~HttpClient() = default;
HttpClient::HttpClient(HttpClient&&) noexcept = default;
HttpClient& HttpClient::operator=(HttpClient&&) noexcept = default;

const HttpClientOptions& HttpClient::options() const { return connection_->options; }

// One request and its response; a redirect is a response.
HttpResponse HttpClient::Connection::hop(const HttpRequest& request, const std::string& address,
                                         std::chrono::milliseconds left) {
  if (options.check_url) options.check_url(address);
  HttpResponse response;
  response.url = address;
  const auto silence_limit = request.silence_limit.count() > 0 ? request.silence_limit : options.silence_limit;
  Transfer transfer{request, response, options.stop, silence_limit, static_cast<std::size_t>(options.max_body_bytes)};
  HeaderList headers;
  for (const auto& line : request.headers) headers.add(line);
  headers.add("Expect:");  // else libcurl waits a second for servers that do not answer "100 Continue"
  if (!options.token.empty() && url_origin(address) == trusted_origin)
    headers.add("Authorization: Bearer " + options.token);

  const auto set = [this](CURLoption option, auto value) { curl_easy_setopt(curl, option, value); };
  curl_easy_reset(curl);  // keeps the connection
  char reason[CURL_ERROR_SIZE] = "";
  set(CURLOPT_ERRORBUFFER, reason);
  set(CURLOPT_URL, address.c_str());
#if LIBCURL_VERSION_NUM >= 0x075500
  set(CURLOPT_PROTOCOLS_STR, "http,https");
#else
  set(CURLOPT_PROTOCOLS, static_cast<long>(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
  set(CURLOPT_USERAGENT, options.user_agent.c_str());
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_CONNECTTIMEOUT, static_cast<long>(options.silence_limit.count()));
  if (left.count() > 0) set(CURLOPT_TIMEOUT_MS, static_cast<long>(left.count()));
  if (options.public_addresses_only) {
    set(CURLOPT_PROXY, "");
    set(CURLOPT_OPENSOCKETFUNCTION, open_public_socket);
    set(CURLOPT_OPENSOCKETDATA, &transfer);
  }
  set(CURLOPT_BUFFERSIZE, 512L << 10);
  if (!request.idempotent) set(CURLOPT_FRESH_CONNECT, 1L);  // libcurl retries requests that fail on a reused connection
  set(CURLOPT_HTTPHEADER, headers.list);
  set(CURLOPT_HEADERFUNCTION, on_header);
  set(CURLOPT_HEADERDATA, &transfer);
  set(CURLOPT_WRITEFUNCTION, on_body);
  set(CURLOPT_WRITEDATA, &transfer);
  set(CURLOPT_NOPROGRESS, 0L);
  set(CURLOPT_XFERINFOFUNCTION, on_progress);
  set(CURLOPT_XFERINFODATA, &transfer);
  if (const char* bundle = std::getenv("SSL_CERT_FILE")) set(CURLOPT_CAINFO, bundle);
  if (request.file.fd >= 0) {
    set(CURLOPT_UPLOAD, 1L);
    set(CURLOPT_READFUNCTION, on_read);
    set(CURLOPT_READDATA, &transfer);
    set(CURLOPT_SEEKFUNCTION, on_seek);
    set(CURLOPT_SEEKDATA, &transfer);
    set(CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(request.file.size));
  } else if (request.method == "HEAD") {
    set(CURLOPT_NOBODY, 1L);
  } else if (request.method != "GET") {
    set(CURLOPT_POST, 1L);
    set(CURLOPT_POSTFIELDS, request.body.data());
    set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
  }
  if (request.method != "GET" && request.method != "HEAD") set(CURLOPT_CUSTOMREQUEST, request.method.c_str());

  CURLcode code;
  {
    SigpipeGuard guard;
    code = curl_easy_perform(curl);
  }
  if (transfer.error) std::rethrow_exception(transfer.error);
  if (transfer.cancelled) throw Cancelled();
  if (transfer.silent && code != CURLE_OK) {
    throw HttpError(
        concat("[http] ", request.method, " ", without_query(address), ": no data for ", silence_limit.count(), " s."),
        /*sent=*/true);
  }
  if (transfer.is_private && code != CURLE_OK) {
    throw HttpError(concat("[http] ", request.method, " ", without_query(address),
                           ": its address is of this machine or of a private network, which is not allowed here."),
                    /*sent=*/false);
  }
  if (code != CURLE_OK) {
    throw HttpError(concat("[http] ", request.method, " ", without_query(address), ": ",
                           reason[0] ? reason : curl_easy_strerror(code), "."),
                    !never_sent(code), code != CURLE_COULDNT_RESOLVE_HOST);
  }
  return response;
}

HttpResponse HttpClient::send(const HttpRequest& request) {
  if (connection_->options.stop.stop_requested()) throw Cancelled();
  std::string address = request.url;
  const auto limit = std::chrono::milliseconds(connection_->options.time_limit);
  const auto begin = std::chrono::steady_clock::now();
  for (int redirects = 0; redirects <= kMaxRedirects; ++redirects) {
    const auto spent = std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - begin);
    const auto left = limit.count() > 0 ? std::max(limit - spent, std::chrono::milliseconds(1)) : limit;
    HttpResponse response = connection_->hop(request, address, left);
    const std::string location = response.header("Location");
    const bool repeatable = request.method == "GET" || request.method == "HEAD";
    const bool same_method = response.status == 307 || response.status == 308;
    if (response.status / 100 != 3 || location.empty() || !(repeatable || same_method)) return response;
    const std::string next = url_join(address, location);
    require<FormatError>(!(address.starts_with("https:") && next.starts_with("http:")), "[http] ",
                         without_query(address), " is encrypted and redirects to ", without_query(next),
                         ", which is not.");
    address = next;
  }
  fail<FormatError>("[http] ", without_query(request.url), ": more than ", kMaxRedirects, " redirects.");
}

#else

namespace {

[[noreturn]] void no_curl() {
  fail<NotSupportedError>(
      "[http] this build has no libcurl and cannot download; it reads only the local cache. Install "
      "libcurl4-openssl-dev, configure and build again.");
}

}  // namespace

struct HttpClient::Connection {
  HttpClientOptions options;
};

HttpClient::HttpClient(HttpClientOptions) { no_curl(); }
HttpClient::~HttpClient() = default;
HttpClient::HttpClient(HttpClient&&) noexcept = default;
HttpClient& HttpClient::operator=(HttpClient&&) noexcept = default;
const HttpClientOptions& HttpClient::options() const { no_curl(); }
HttpResponse HttpClient::send(const HttpRequest&) { no_curl(); }

#endif

}  // namespace easydel
