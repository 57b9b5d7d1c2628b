#include "easydel/serve/client/http_load.h"

#include <algorithm>

#include "easydel/core/build_info.h"
#include "easydel/core/error.h"
#include "easydel/serve/client/sse_reader.h"

#if EASYDEL_HAS_CURL
#include <curl/curl.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <mutex>
#include <vector>
#endif

namespace easydel::serve {

#if EASYDEL_HAS_CURL

namespace {

constexpr std::size_t kLoadErrorBytes = 4096;  // that are kept of an answer with an error
constexpr long kLoadConnectSeconds = 60;
constexpr long kLoadRequestSeconds = 6 * 60 * 60;  // vLLM's limit too
constexpr rlim_t kLoadDescriptors = 65535;

// One request on its way. Callbacks of libcurl get a pointer to it.
struct LoadStream {
  CURL* curl = nullptr;
  LoadRecord* record = nullptr;
  double epoch = 0;
  std::string body, refusal;  // what is sent; the answer if its status is an error
  SseReader events;
  bool done = false;  // [DONE] was seen
  std::array<char, CURL_ERROR_SIZE> reason{};

  ~LoadStream() { curl_easy_cleanup(curl); }

  long status() const {
    long status = 0;
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    return status;
  }
};

std::size_t on_load_body(char* data, std::size_t, std::size_t size, void* user) {
  auto& stream = *static_cast<LoadStream*>(user);
  const double now = load_clock() - stream.epoch;
  if (stream.status() != 200) {
    stream.refusal.append(data, std::min(size, kLoadErrorBytes - std::min(kLoadErrorBytes, stream.refusal.size())));
    return size;
  }
  try {  // an exception must not cross libcurl's frames
    stream.events.add({data, size}, [&](std::string_view event) {
      if (!stream.done) stream.done = !take_load_event(event, now, *stream.record);
    });
  } catch (const std::exception& error) {
    stream.record->error = error.what();
    return 0;
  }
  return size;
}

// Many connections need many descriptors: as many as the system lets a process have.
void raise_descriptor_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const rlim_t wanted = std::min(limit.rlim_max, kLoadDescriptors);
  if (limit.rlim_cur >= wanted) return;
  limit.rlim_cur = wanted;
  setrlimit(RLIMIT_NOFILE, &limit);
}

// The error of a stream that has ended with this code; "" if all of its answer came.
std::string load_error(const LoadStream& stream, CURLcode code) {
  if (!stream.record->error.empty()) return stream.record->error;
  if (code != CURLE_OK) return stream.reason[0] ? stream.reason.data() : curl_easy_strerror(code);
  if (stream.status() != 200) return concat("HTTP ", stream.status(), ": ", stream.refusal);
  if (!stream.record->has_first()) return "the answer had no token.";
  return stream.done ? "" : "the answer ended before [DONE].";
}

}  // namespace

struct HttpLoad::Connections {
  HttpLoadOptions options;
  std::string address;
  CURLM* multi = nullptr;
  curl_slist* headers = nullptr;
  int poll = -1;
  double timer = -1;  // when libcurl wants to be called; below 0: not at all
  std::vector<std::unique_ptr<LoadStream>> free, busy;
  int64_t ended = 0;  // and not reported yet

  explicit Connections(HttpLoadOptions given);
  ~Connections();

  std::unique_ptr<LoadStream> take_stream();
  void act(curl_socket_t socket, int events);
  void finish(CURL* curl, CURLcode code);
  void poll_once(double seconds);

  static int on_socket(CURL*, curl_socket_t socket, int what, void* user, void*);
  static int on_timer(CURLM*, long milliseconds, void* user);
};

HttpLoad::Connections::Connections(HttpLoadOptions given) : options(std::move(given)) {
  static std::once_flag once;
  std::call_once(once, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
  raise_descriptor_limit();
  while (options.base_url.ends_with('/')) options.base_url.pop_back();
  address = options.base_url + options.endpoint;
  multi = curl_multi_init();
  poll = epoll_create1(EPOLL_CLOEXEC);
  require<IoError>(multi != nullptr && poll >= 0, "[HttpLoad] libcurl or epoll cannot be set up: ", errno_text(errno),
                   ".");
  curl_multi_setopt(multi, CURLMOPT_SOCKETFUNCTION, on_socket);
  curl_multi_setopt(multi, CURLMOPT_SOCKETDATA, this);
  curl_multi_setopt(multi, CURLMOPT_TIMERFUNCTION, on_timer);
  curl_multi_setopt(multi, CURLMOPT_TIMERDATA, this);
  const auto add = [this](const std::string& line) { headers = curl_slist_append(headers, line.c_str()); };
  add("Content-Type: application/json");
  add("Expect:");  // else libcurl may wait for "100 Continue"
  if (!options.api_key.empty()) add("Authorization: Bearer " + options.api_key);
}

HttpLoad::Connections::~Connections() {
  for (const auto& stream : busy) curl_multi_remove_handle(multi, stream->curl);
  busy.clear();
  free.clear();
  curl_multi_cleanup(multi);
  curl_slist_free_all(headers);
  if (poll >= 0) ::close(poll);
}

int HttpLoad::Connections::on_socket(CURL*, curl_socket_t socket, int what, void* user, void*) {
  const int poll = static_cast<Connections*>(user)->poll;
  epoll_event event{};
  event.data.fd = socket;
  if (what == CURL_POLL_REMOVE) {
    epoll_ctl(poll, EPOLL_CTL_DEL, socket, &event);
    return 0;
  }
  if (what != CURL_POLL_OUT) event.events |= EPOLLIN;
  if (what != CURL_POLL_IN) event.events |= EPOLLOUT;
  if (epoll_ctl(poll, EPOLL_CTL_MOD, socket, &event) != 0 && errno == ENOENT)
    epoll_ctl(poll, EPOLL_CTL_ADD, socket, &event);
  return 0;
}

int HttpLoad::Connections::on_timer(CURLM*, long milliseconds, void* user) {
  static_cast<Connections*>(user)->timer =
      milliseconds < 0 ? -1 : load_clock() + static_cast<double>(milliseconds) / 1e3;
  return 0;
}

std::unique_ptr<LoadStream> HttpLoad::Connections::take_stream() {
  std::unique_ptr<LoadStream> stream;
  if (free.empty()) {
    stream = std::make_unique<LoadStream>();
    stream->curl = curl_easy_init();
    require<IoError>(stream->curl != nullptr, "[HttpLoad] libcurl cannot be initialized.");
  } else {
    stream = std::move(free.back());
    free.pop_back();
    curl_easy_reset(stream->curl);
  }
  stream->refusal.clear();
  stream->events = {};
  stream->done = false;
  stream->reason[0] = '\0';
  return stream;
}

void HttpLoad::Connections::act(curl_socket_t socket, int events) {
  int running = 0;
  curl_multi_socket_action(multi, socket, events, &running);
  int left = 0;
  while (const CURLMsg* message = curl_multi_info_read(multi, &left)) {
    if (message->msg == CURLMSG_DONE) finish(message->easy_handle, message->data.result);
  }
}

void HttpLoad::Connections::finish(CURL* curl, CURLcode code) {
  const auto at = std::find_if(busy.begin(), busy.end(), [&](const auto& stream) { return stream->curl == curl; });
  std::unique_ptr<LoadStream> stream = std::move(*at);
  *at = std::move(busy.back());
  busy.pop_back();
  LoadRecord& record = *stream->record;
  record.error = load_error(*stream, code);
  record.success = record.error.empty();
  // A server that counts no tokens: each piece is one.
  if (record.output_tokens == 0 && record.has_first())
    record.output_tokens = static_cast<int64_t>(record.itl.size()) + 1;
  curl_multi_remove_handle(multi, curl);
  free.push_back(std::move(stream));
  ++ended;
}

void HttpLoad::Connections::poll_once(double seconds) {
  if (timer >= 0) seconds = std::min(seconds, timer - load_clock());
  std::array<epoll_event, 256> events;
  const int count = epoll_wait(poll, events.data(), static_cast<int>(events.size()),
                               static_cast<int>(std::ceil(std::max(0.0, seconds) * 1e3)));
  require<IoError>(count >= 0 || errno == EINTR, "[HttpLoad] epoll failed: ", errno_text(errno), ".");
  for (int i = 0; i < count; ++i) {
    const uint32_t seen = events[static_cast<std::size_t>(i)].events;
    const int what = ((seen & EPOLLIN) ? CURL_CSELECT_IN : 0) | ((seen & EPOLLOUT) ? CURL_CSELECT_OUT : 0) |
                     ((seen & (EPOLLERR | EPOLLHUP)) ? CURL_CSELECT_ERR : 0);
    act(events[static_cast<std::size_t>(i)].data.fd, what);
  }
  if (timer >= 0 && load_clock() >= timer) {
    timer = -1;
    act(CURL_SOCKET_TIMEOUT, 0);
  }
}

HttpLoad::HttpLoad(HttpLoadOptions options) : connections_(std::make_unique<Connections>(std::move(options))) {
  std::signal(SIGPIPE, SIG_IGN);  // the server may close a connection that is being written to
}
HttpLoad::~HttpLoad() = default;

void HttpLoad::start(const LoadRequest& request, LoadRecord& record, double epoch) {
  Connections& all = *connections_;
  std::unique_ptr<LoadStream> stream = all.take_stream();
  stream->record = &record;
  stream->epoch = epoch;
  stream->body = load_body(request, all.options).dump();
  const auto set = [&](CURLoption option, auto value) { curl_easy_setopt(stream->curl, option, value); };
  set(CURLOPT_URL, all.address.c_str());
  set(CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_CONNECTTIMEOUT, kLoadConnectSeconds);
  set(CURLOPT_TIMEOUT, kLoadRequestSeconds);
  set(CURLOPT_HTTPHEADER, all.headers);
  set(CURLOPT_ERRORBUFFER, stream->reason.data());
  set(CURLOPT_WRITEFUNCTION, on_load_body);
  set(CURLOPT_WRITEDATA, stream.get());
  set(CURLOPT_POST, 1L);
  set(CURLOPT_POSTFIELDS, stream->body.data());
  set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(stream->body.size()));
  record.start = load_clock() - epoch;
  curl_multi_add_handle(all.multi, stream->curl);
  all.busy.push_back(std::move(stream));
  all.act(CURL_SOCKET_TIMEOUT, 0);  // connects and sends now, not when the others have been prepared too
}

int64_t HttpLoad::wait(double seconds) {
  Connections& all = *connections_;
  const double until = load_clock() + seconds;
  do {
    if (all.ended == 0) all.poll_once(until - load_clock());
  } while (all.ended == 0 && load_clock() < until);
  return std::exchange(all.ended, 0);
}

#else

struct HttpLoad::Connections {};

HttpLoad::HttpLoad(HttpLoadOptions) {
  fail<NotSupportedError>(
      "[HttpLoad] this build has no libcurl. Install libcurl4-openssl-dev, configure and build again.");
}
HttpLoad::~HttpLoad() = default;
void HttpLoad::start(const LoadRequest&, LoadRecord&, double) {}
int64_t HttpLoad::wait(double) { return 0; }

#endif

}  // namespace easydel::serve
