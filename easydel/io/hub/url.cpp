#include "easydel/io/hub/url.h"

#include <algorithm>
#include <cctype>
#include <memory>

#include "easydel/core/build_info.h"
#include "easydel/core/error.h"

#if EASYDEL_HAS_CURL
#include <curl/curl.h>
#endif

namespace easydel {

std::string url_escape(std::string_view text, std::string_view keep) {
  constexpr std::string_view kPlain = "-._~";
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string result;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte < 128 && std::isalnum(byte)) || kPlain.find(c) != kPlain.npos || keep.find(c) != keep.npos) {
      result += c;
    } else {
      result += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
    }
  }
  return result;
}

#if EASYDEL_HAS_CURL

namespace {

struct UrlDeleter {
  void operator()(CURLU* url) const { curl_url_cleanup(url); }
};
using Url = std::unique_ptr<CURLU, UrlDeleter>;

Url parse_url(const std::string& text) {
  Url url(curl_url());
  const CURLUcode code = curl_url_set(url.get(), CURLUPART_URL, text.c_str(), 0);
  require<FormatError>(code == CURLUE_OK, "[http] invalid URL \"", text, "\" (", curl_url_strerror(code), ").");
  return url;
}

std::string url_part(const Url& url, CURLUPart part, unsigned flags = 0) {
  char* text = nullptr;
  if (curl_url_get(url.get(), part, &text, flags) != CURLUE_OK) return "";
  std::string result = text;
  curl_free(text);
  return result;
}

std::string host_of(const Url& url) {
  std::string host = url_part(url, CURLUPART_HOST);
  std::transform(host.begin(), host.end(), host.begin(), [](unsigned char c) { return std::tolower(c); });
  return host;
}

std::string origin_of(const Url& url) {
  return url_part(url, CURLUPART_SCHEME) + "://" + host_of(url) + ":" +
         url_part(url, CURLUPART_PORT, CURLU_DEFAULT_PORT);
}

}  // namespace

std::string url_origin(const std::string& url) { return origin_of(parse_url(url)); }
std::string url_host(const std::string& url) { return host_of(parse_url(url)); }

std::string url_join(const std::string& base, const std::string& reference) {
  const Url url = parse_url(base);
  const CURLUcode code = curl_url_set(url.get(), CURLUPART_URL, reference.c_str(), 0);
  require<FormatError>(code == CURLUE_OK, "[http] invalid URL \"", reference, "\" (", curl_url_strerror(code), ").");
  return url_part(url, CURLUPART_URL);
}

#else

std::string url_origin(const std::string&) { fail<NotSupportedError>("[url] this build has no libcurl."); }
std::string url_host(const std::string&) { fail<NotSupportedError>("[url] this build has no libcurl."); }
std::string url_join(const std::string&, const std::string&) {
  fail<NotSupportedError>("[url] this build has no libcurl.");
}

#endif

}  // namespace easydel
