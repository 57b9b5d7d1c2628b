#include "easydel/io/hub/http.h"

#include "easydel/core/build_info.h"
#include "easydel/io/hub/http_retry.h"
#include "easydel/io/hub/hub_api.h"
#include "easydel/io/hub/public_address.h"
#include "easydel/io/hub/url.h"
#include "easydel/io/parallel.h"
#include "tests/support/hub_fixture.h"

namespace easydel {
namespace {

using testing::HasSubstr;
using testing::StartsWith;
using testing::ThrowsMessage;

TEST(Url, EscapesAllButPlainCharacters) {
  EXPECT_EQ(url_escape("a-b_c.d~e"), "a-b_c.d~e");
  EXPECT_EQ(url_escape("refs/pr/1"), "refs%2Fpr%2F1");
  EXPECT_EQ(url_escape("dir/a b#c?d%é", "/"), "dir/a%20b%23c%3Fd%25%C3%A9");
}

TEST(LinkHeader, GivesTheAddressOfARelation) {
  EXPECT_EQ(linked_url("<http://h/a?b=1>; rel=\"next\"", "next"), "http://h/a?b=1");
  EXPECT_EQ(linked_url("<http://h/0>; rel=\"prev\", <http://h/2>; rel=\"next\"", "next"), "http://h/2");
  EXPECT_EQ(linked_url("<http://h/0>; rel=\"prev\"", "next"), "");
  EXPECT_EQ(linked_url("<broken", "next"), "");
  EXPECT_EQ(linked_url("", "next"), "");
}

TEST(RetryAfter, ReadsSecondsDatesAndRateLimits) {
  const auto ask = [](const char* name, const char* value) { return retry_after({.headers = {{name, value}}}); };
  EXPECT_EQ(ask("retry-after", "120"), 120);
  EXPECT_EQ(ask("Retry-After", "Wed, 21 Oct 2015 07:28:00 GMT"), 0);
  EXPECT_EQ(ask("RateLimit", "\"api\";r=0;t=55"), 55);
  EXPECT_EQ(ask("RateLimit", "\"api\";r=10;t=55"), std::nullopt);
  EXPECT_EQ(ask("Retry-After", "-5"), std::nullopt);
  EXPECT_EQ(ask("Retry-After", "later"), std::nullopt);
}

TEST(BackoffTest, EndsAfterItsRetriesAndLimitsTheDelay) {
  Backoff backoff({.max_retries = 2, .base_delay = 0});
  EXPECT_TRUE(backoff.wait("a"));
  EXPECT_TRUE(backoff.wait("a"));
  EXPECT_FALSE(backoff.wait("a"));
  backoff.reset();
  EXPECT_TRUE(backoff.wait("a"));
  EXPECT_FALSE(backoff.wait("a", 301));
}

#if EASYDEL_HAS_CURL

TEST(Url, OriginIsSchemeHostAndPort) {
  EXPECT_EQ(url_origin("https://Hub.co/a?b"), "https://hub.co:443");
  EXPECT_EQ(url_origin("http://hub.co"), "http://hub.co:80");
  EXPECT_EQ(url_origin("http://user:secret@hub.co:81/x"), "http://hub.co:81");
  EXPECT_THAT([] { url_origin("nonsense:"); }, testing::Throws<FormatError>());
}

TEST(Url, JoinsAsABrowserDoes) {
  EXPECT_EQ(url_join("http://h:1/a/b?c", "/d"), "http://h:1/d");
  EXPECT_EQ(url_join("http://h:1/a/b?c", "d"), "http://h:1/a/d");
  EXPECT_EQ(url_join("http://h:1/a", "https://other/x"), "https://other/x");
}

class HttpTest : public HubTest {
 protected:
  HttpTest() {
    add_small_model();
    start();
  }
  HttpClient client(std::string token = "hf_good") {
    return HttpClient({.user_agent = "test", .token = std::move(token), .trusted_url = endpoint()});
  }
};

TEST_F(HttpTest, SendsTheTokenToTheEndpointAndNowhereElse) {
  auto http = client();
  const auto response = http.send({.url = endpoint() + "/org/tiny/resolve/main/model-00001-of-00002.safetensors"});
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.body.size(), 300'000U);
  EXPECT_EQ(requests("GET", "/resolve/", "hub").at(0).at("authorization").as_string(), "Bearer hf_good");
  ASSERT_EQ(requests("GET", "/blob/", "cdn").size(), 1U);
  EXPECT_TRUE(requests("GET", "/blob/", "cdn").at(0).at("authorization").is_null());
}

TEST_F(HttpTest, ARedirectThatOnlyLooksLikeTheEndpointGetsNoToken) {
  const std::string port = endpoint().substr(endpoint().rfind(':') + 1);
  const std::string storage_port = storage().substr(storage().rfind(':') + 1);
  // The endpoint as the user name of another server; and the same server under another name.
  for (const std::string& target : {"http://127.0.0.1:" + port + "@127.0.0.1:" + storage_port + "/x",
                                    "http://localhost:" + port + "/api/models/org/tiny"}) {
    forget_requests();
    fault(Json::object({{"match", "GET /start"}, {"kind", "redirect"}, {"location", target}}));
    auto http = client();
    http.send({.url = endpoint() + "/start"});
    const Json all = requests("GET", "/");
    ASSERT_EQ(all.size(), 2U);
    EXPECT_EQ(all.at(0).at("authorization").as_string(), "Bearer hf_good");
    EXPECT_TRUE(all.at(1).at("authorization").is_null() ||
                !all.at(1).at("authorization").as_string().starts_with("Bearer"))
        << target;
  }
}

TEST_F(HttpTest, ARedirectInsideTheEndpointKeepsTheToken) {
  fault(Json::object({{"match", "GET /start"}, {"kind", "redirect"}, {"location", "/api/models/org/tiny"}}));
  auto http = client();
  EXPECT_EQ(http.send({.url = endpoint() + "/start"}).status, 200);
  EXPECT_EQ(requests("GET", "/api/models").at(0).at("authorization").as_string(), "Bearer hf_good");
}

TEST_F(HttpTest, StopsARedirectLoop) {
  fault(Json::object({{"match", "GET /start"}, {"kind", "redirect"}, {"location", "/start"}, {"times", -1}}));
  auto http = client();
  EXPECT_THAT([&] { http.send({.url = endpoint() + "/start?key=secret"}); },
              ThrowsMessage<FormatError>("[http] " + endpoint() + "/start: more than 10 redirects."));
}

TEST_F(HttpTest, DoesNotFollowARedirectToAFile) {
  fault(Json::object({{"match", "GET /start"}, {"kind", "redirect"}, {"location", "file:///etc/passwd"}}));
  auto http = client();
  EXPECT_THAT([&] { http.send({.url = endpoint() + "/start"}); },
              ThrowsMessage<HttpError>(StartsWith("[http] GET file:///etc/passwd: ")));
}

TEST_F(HttpTest, RefusesATokenThatWouldBreakTheHeader) {
  EXPECT_THAT([&] { client("hf_x\r\nX-Evil: 1"); },
              ThrowsMessage<ConfigError>("[http] a token must be printable characters without spaces."));
}

TEST_F(HttpTest, ATruncatedResponseIsAnErrorWithoutTheQuery) {
  fault(Json::object({{"match", "GET /api"}, {"kind", "cut"}, {"after", 10}}));
  auto http = client();
  EXPECT_THAT([&] { http.send({.url = endpoint() + "/api/models/org/tiny?key=secret"}); },
              ThrowsMessage<HttpError>(testing::AllOf(StartsWith("[http] GET " + endpoint() + "/api/models/org/tiny: "),
                                                      testing::Not(HasSubstr("secret")))));
}

TEST_F(HttpTest, TimesOutOnASilentServer) {
  fault(Json::object({{"match", "GET /api"}, {"kind", "stall"}, {"after", 10}}));
  HttpClient http({.trusted_url = endpoint(), .silence_limit = std::chrono::seconds(1)});
  EXPECT_THAT([&] { http.send({.url = endpoint() + "/api/models/org/tiny?key=secret"}); },
              ThrowsMessage<HttpError>("[http] GET " + endpoint() + "/api/models/org/tiny: no data for 1 s."));
  command(Json::object({{"do", "release"}}));
}

TEST_F(HttpTest, StopsWhenAsked) {
  std::stop_source stop;
  HttpClient http({.trusted_url = endpoint(), .stop = stop.get_token()});
  stop.request_stop();
  EXPECT_THROW(http.send({.url = endpoint() + "/api/models/org/tiny"}), Cancelled);
  EXPECT_EQ(count("GET", "/"), 0U);
}

TEST_F(HttpTest, ExceptionsOfTheReceiverPropagate) {
  auto http = client();
  HttpRequest request{.url = endpoint() + "/api/models/org/tiny"};
  request.on_body = [](const HttpResponse&, std::string_view) { throw std::logic_error("mine"); };
  EXPECT_THAT([&] { http.send(request); }, ThrowsMessage<std::logic_error>("mine"));
  request.on_body = {};
  EXPECT_EQ(http.send(request).status, 200);  // and the client still works
}

TEST(PublicAddress, IsNoneOfThisMachineOrOfPrivateNetworks) {
  for (const char* text : {"127.0.0.1",
                           "127.9.9.9",
                           "0.0.0.0",
                           "10.1.2.3",
                           "100.64.0.1",
                           "100.127.255.255",
                           "169.254.169.254",
                           "172.16.0.1",
                           "172.31.255.255",
                           "192.0.2.1",
                           "192.168.1.1",
                           "198.18.0.1",
                           "198.19.255.255",
                           "224.0.0.1",
                           "255.255.255.255",
                           "::1",
                           "::",
                           "::ffff:127.0.0.1",
                           "::ffff:10.0.0.1",
                           "64:ff9b::7f00:1",
                           "fe80::1",
                           "fd00::1",
                           "2002:7f00:1::",
                           "2001:db8::1",
                           "2001:0:1::",
                           "ff02::1",
                           "localhost",
                           "",
                           "1.2.3"})
    EXPECT_FALSE(is_public_address(std::string(text))) << text;
  for (const char* text : {"1.1.1.1", "93.184.216.34", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0",
                           "172.15.255.255", "172.32.0.0", "192.167.255.255", "192.169.0.0", "198.17.0.0", "198.20.0.0",
                           "223.255.255.255", "::ffff:8.8.8.8", "64:ff9b::808:808", "2606:4700::1111", "2a00:1450::1"})
    EXPECT_TRUE(is_public_address(std::string(text))) << text;
}

TEST(HttpAddresses, PrivateOnesAreRefusedBeforeConnecting) {
  HttpClient http({.silence_limit = std::chrono::seconds(1), .public_addresses_only = true});
  for (const char* host :
       {"127.0.0.1", "localhost", "10.1.2.3", "169.254.169.254", "192.168.1.1", "2130706433", "0x7f.1"})
    EXPECT_THAT([&] { http.send({.url = concat("http://", host, ":1/")}); },
                ThrowsMessage<HttpError>(HasSubstr("its address is of this machine or of a private network")))
        << host;
}

TEST_F(HttpTest, AsksAboutTheAddressOfARedirect) {
  fault(Json::object({{"match", "GET /start"}, {"kind", "redirect"}, {"location", "/api/models/org/tiny"}}));
  std::vector<std::string> asked;
  HttpClient http({.check_url = [&](const std::string& url) {
    asked.push_back(url);
    require<ConfigError>(asked.size() < 2, "not there");
  }});
  EXPECT_THAT([&] { http.send({.url = endpoint() + "/start"}); }, ThrowsMessage<ConfigError>("not there"));
  EXPECT_EQ(asked, (std::vector<std::string>{endpoint() + "/start", endpoint() + "/api/models/org/tiny"}));
  EXPECT_EQ(count("GET", "/api"), 0U);
}

TEST_F(HttpTest, RetriesOnlyTransientFailures) {
  const RetryPolicy policy{.max_retries = 3, .base_delay = 0};
  auto http = client();
  const std::string url = endpoint() + "/api/models/org/tiny";
  for (const int status : {408, 429, 500, 502, 503, 504}) {
    forget_requests();
    fault(Json::object({{"match", "GET /api"}, {"kind", "status"}, {"status", status}, {"times", 2}}));
    EXPECT_EQ(send_with_retries(http, {.url = url}, policy).status, 200) << status;
    EXPECT_EQ(count("GET", "/api"), 3U) << status;
  }
  forget_requests();
  fault(Json::object({{"match", "GET /api"}, {"kind", "status"}, {"status", 400}}));
  EXPECT_EQ(send_with_retries(http, {.url = url}, policy).status, 400);
  EXPECT_EQ(count("GET", "/api"), 1U);
  forget_requests();
  fault(Json::object({{"match", "GET /api"}, {"kind", "status"}, {"status", 503}, {"times", -1}}));
  EXPECT_EQ(send_with_retries(http, {.url = url}, policy).status, 503);
  EXPECT_EQ(count("GET", "/api"), 4U);
}

TEST_F(HttpTest, WaitsAsLongAsTheServerAsks) {
  fault(Json::object(
      {{"match", "GET /api"}, {"kind", "status"}, {"status", 429}, {"headers", Json::object({{"Retry-After", "1"}})}}));
  auto http = client();
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(send_with_retries(http, {.url = endpoint() + "/api/models/org/tiny"}, {.base_delay = 0}).status, 200);
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(990));
}

TEST_F(HttpTest, DoesNotRetryWhatTheServerMayHaveDone) {
  auto http = client();
  http.send({.url = endpoint() + "/api/models/org/tiny"});  // leaves a connection that may be used again
  HttpRequest request{.method = "POST", .url = endpoint() + "/api/repos/create", .body = "{}", .idempotent = false};
  fault(Json::object({{"match", "POST"}, {"kind", "drop"}}));
  EXPECT_THROW(send_with_retries(http, request, {.base_delay = 0}), HttpError);
  EXPECT_EQ(count("POST", "/api"), 1U);
  request.idempotent = true;
  fault(Json::object({{"match", "POST"}, {"kind", "drop"}}));
  fault(Json::object({{"match", "POST"}, {"kind", "body"}, {"body", "{}"}}));
  EXPECT_EQ(send_with_retries(http, request, {.base_delay = 0}).status, 200);
  EXPECT_EQ(count("POST", "/api"), 3U);
}

#else

TEST(Http, SaysWhatToInstall) {
  EXPECT_THAT([] { HttpClient({}); },
              ThrowsMessage<NotSupportedError>(
                  "[http] this build has no libcurl and cannot download; it reads only the local cache. Install "
                  "libcurl4-openssl-dev, configure and build again."));
}

#endif

}  // namespace
}  // namespace easydel
