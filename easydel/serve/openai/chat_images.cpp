#include "easydel/serve/openai/chat_images.h"

#include <algorithm>
#include <cctype>
#include <chrono>
#include <filesystem>

#include "easydel/core/files/file.h"
#include "easydel/io/hub/base64.h"
#include "easydel/io/hub/http.h"
#include "easydel/io/hub/url.h"

namespace easydel::serve {
namespace {

namespace fs = std::filesystem;

// Of data:image/png;base64,….
std::string data_uri_bytes(std::string_view url, const std::string& at) {
  const std::size_t comma = url.find(',');
  const bool is_base64 = comma != std::string_view::npos && url.substr(0, comma).ends_with(";base64");
  require_field(is_base64, at, at, " must be data:image/…;base64,…; got another data URI.");
  auto bytes = base64_decode(url.substr(comma + 1));
  require_field(bytes.has_value(), at, at, " has data that is not base64.");
  return *std::move(bytes);
}

// Links and ".." are followed first, so that they lead nowhere else.
std::string local_bytes(const std::string& name, const std::string& allowed, const std::string& at) {
  require_field(
      !allowed.empty(), at, at,
      " is a file; this server reads no files. Send a data URI, or start it with --allowed-local-media-path.");
  std::error_code error;
  const fs::path directory = fs::canonical(allowed, error), file = fs::canonical(name, error);
  const bool is_below =
      !error && std::mismatch(directory.begin(), directory.end(), file.begin(), file.end()).first == directory.end();
  require_field(is_below && fs::is_regular_file(file, error), at, at,
                " must be a file below the directory that the server allows; got \"", name, "\".");
  return read_file(file);
}

// A listed host may have any address, others where "*" is listed a public one; every redirect is held to the same.
std::string fetched_bytes(const std::string& url, const ServiceOptions& options, const std::string& at,
                          FetchBudget& budget) {
  const std::vector<std::string>& allowed = options.allowed_media_domains;
  const auto has = [&](const std::string& name) {
    return std::any_of(allowed.begin(), allowed.end(), [&](const std::string& each) {
      return std::equal(each.begin(), each.end(), name.begin(), name.end(),
                        [](unsigned char a, unsigned char b) { return std::tolower(a) == b; });
    });
  };
  require_field(!allowed.empty(), at, at,
                " is a URL; this server fetches none. Send a data URI, or start it with --allowed-media-domains.");
  const auto left = std::chrono::ceil<std::chrono::seconds>(budget.ends - std::chrono::steady_clock::now());
  require_field(left.count() > 0 && budget.bytes > 0, at, at,
                " comes after what a request may fetch: 32 MiB in 10 s. Send data URIs.");
  HttpClientOptions client{
      .user_agent = "easydel/" + options.version, .time_limit = left, .max_body_bytes = budget.bytes};
  try {
    const auto is_listed = [&](const std::string& host) { return host != "*" && has(host); };
    client.public_addresses_only = !is_listed(url_host(url));
    client.check_url = [&](const std::string& address) {
      const std::string host = url_host(address);
      require<ConfigError>(has("*") || is_listed(host), "the host ", host, " is not one of --allowed-media-domains.");
      require<ConfigError>(client.public_addresses_only || is_listed(host), "a redirect leads to ", host,
                           ", which is not one of --allowed-media-domains.");
    };
    easydel::HttpResponse response = HttpClient(client).send({.url = url});
    require<IoError>(response.ok(), "the server answered with status ", response.status, ".");
    budget.bytes -= static_cast<int64_t>(response.body.size());
    return std::move(response.body);
  } catch (const Error& error) {
    refuse_field(at, at, " could not be fetched: ", error.what());
  }
}

}  // namespace

std::string read_image(Fields& part, const std::string& at, const ServiceContext& context, FetchBudget& budget) {
  const Json* given = part.object("image_url");
  require_field(given != nullptr, at + ".image_url", at, ".image_url is required.");
  Fields fields(*given, at + ".image_url.");
  const std::string path = fields.path("url");
  const std::string url = fields.string("url").value_or("");
  const std::string detail = fields.string("detail").value_or("auto");
  require_field(detail == "auto", fields.path("detail"), fields.path("detail"),
                " must be auto: the model has one image size; got \"", detail, "\".");
  fields.refuse_rest();
  part.refuse_rest();
  if (url.starts_with("data:")) return data_uri_bytes(url, path);
  constexpr std::string_view kFile = "file://";
  if (url.starts_with(kFile))
    return local_bytes(url.substr(kFile.size()), context.options.allowed_local_media_path, path);
  if (url.starts_with("http://") || url.starts_with("https://"))
    return fetched_bytes(url, context.options, path, budget);
  refuse_field(path, path, " must be a data URI, or a file or an http URL where the server allows it; got \"",
               url.substr(0, 40), "\".");
}

ImageInputs process_images(const std::vector<std::string>& images, const VisionProcessor& vision) {
  std::vector<at::Tensor> decoded;
  for (std::size_t i = 0; i < images.size(); ++i)
    decoded.push_back(vision.image_processor().decode(images[i], concat("image ", i + 1)));
  try {
    return vision(decoded);
  } catch (const ShapeError& error) {  // of a size that the model's files do not let be prepared
    throw ApiError(400, error.what());
  }
}

}  // namespace easydel::serve
