// MLflow, through its REST interface.
#include <cctype>
#include <cmath>
#include <optional>

#include "easydel/core/error.h"
#include "easydel/core/text/utf8.h"
#include "easydel/io/hub/base64.h"
#include "easydel/io/hub/http.h"
#include "easydel/io/hub/url.h"
#include "easydel/trainers/arguments/training_arguments.h"
#include "easydel/trainers/trackers/tracker.h"

namespace easydel {
namespace {

constexpr const char* kIdTag = "easydel.run_id";
constexpr std::size_t kMaxParams = 100, kMaxMetrics = 1000;  // of one request
constexpr std::size_t kLongestValue = 500, kLongestKey = 250;

// The characters that names may have; others become "_".
std::string mlflow_name(std::string_view name) {
  std::string out;
  for (const char c : name.substr(0, kLongestKey))
    out += std::isalnum(static_cast<unsigned char>(c)) || std::string_view("_-. /").find(c) != std::string_view::npos
               ? c
               : '_';
  return out;
}

void add_params(const Json& value, const std::string& key, Json& params) {
  if (value.is_object() && value.size() > 0) {
    for (const auto& [name, inner] : value.as_object())
      add_params(inner, key.empty() ? name : key + "." + name, params);
  } else {
    std::string text = value.is_string() ? value.as_string() : value.dump();
    if (text.size() > kLongestValue) {
      text.resize(kLongestValue);
      while (!text.empty() && invalid_utf8(text) != std::string_view::npos) text.pop_back();
    }
    params.push_back(Json::object({{"key", mlflow_name(key)}, {"value", text}}));
  }
}

int64_t milliseconds(double seconds) { return std::llround(seconds * 1000); }

class MlflowTracker final : public Tracker {
 public:
  MlflowTracker(const TrackerArguments& arguments, const std::string& uri, const std::string& project,
                const TrackedRun& run, std::stop_token stop)
      : uri_(uri),
        experiment_(chosen(arguments.wandb_project, "MLFLOW_EXPERIMENT_NAME", project)),
        name_(arguments.wandb_name.value_or(run.name)),
        client_({.user_agent = "easydel",
                 .token = "",
                 .trusted_url = "",
                 .silence_limit = std::chrono::seconds(5),
                 .stop = std::move(stop)}) {
    while (uri_.ends_with('/')) uri_.pop_back();
    const std::string token = chosen(std::nullopt, "MLFLOW_TRACKING_TOKEN", "");
    const std::string user = chosen(std::nullopt, "MLFLOW_TRACKING_USERNAME", "");
    if (!token.empty()) {
      authorization_ = "Authorization: Bearer " + token;
    } else if (!user.empty()) {
      authorization_ =
          "Authorization: Basic " + base64_encode(user + ":" + chosen(std::nullopt, "MLFLOW_TRACKING_PASSWORD", ""));
    }
  }

  std::string name() const override { return "mlflow"; }
  std::string where() const override { return concat("experiment ", experiment_, ", run ", name_, " on ", uri_); }

  // A run is found again by the id that it was given as a tag: nothing has to be remembered here.
  void begin(const TrackedRun& run) override {
    last_time_ = run.started;
    const std::string experiment = experiment_id();
    const Json found = post("runs/search", Json::object({{"experiment_ids", Json::array({experiment})},
                                                         {"filter", concat("tags.\"", kIdTag, "\" = '", run.id, "'")},
                                                         {"max_results", 1}}));
    const Json* runs = found.find("runs");
    bool has_params = false;
    if (runs && runs->size() > 0) {
      const Json& info = runs->at(0).at("info");
      run_id_ = info.at("run_id").as_string();
      const Json* data = runs->at(0).find("data");
      const Json* params = data ? data->find("params") : nullptr;
      has_params = params && params->size() > 0;
      update("RUNNING");
    } else {
      const Json tags = Json::array({Json::object({{"key", kIdTag}, {"value", run.id}}),
                                     Json::object({{"key", "mlflow.source.name"}, {"value", "easydel"}})});
      const Json made = post("runs/create", Json::object({{"experiment_id", experiment},
                                                          {"run_name", name_},
                                                          {"start_time", milliseconds(run.started)},
                                                          {"tags", tags}}));
      run_id_ = made.at("run").at("info").at("run_id").as_string();
    }
    if (has_params) return;  // those of a run do not change
    Json params = Json::array();
    add_params(run.config, "", params);
    for (std::size_t i = 0; i < params.size(); i += kMaxParams) {
      Json some = Json::array();
      for (std::size_t j = i; j < std::min(i + kMaxParams, params.size()); ++j) some.push_back(params.at(j));
      post("runs/log-batch", Json::object({{"run_id", run_id_}, {"params", some}}));
    }
  }

  void log(const std::vector<TrackedRow>& rows) override {
    Json metrics = Json::array();
    const auto send = [&] {
      if (metrics.size() > 0) post("runs/log-batch", Json::object({{"run_id", run_id_}, {"metrics", metrics}}));
      metrics = Json::array();
    };
    for (const TrackedRow& row : rows) {
      if (metrics.size() + row.values.size() > kMaxMetrics) send();
      for (const auto& [name, value] : row.values) {
        metrics.push_back(Json::object({{"key", mlflow_name(name)},
                                        {"value", strict_number(value)},
                                        {"timestamp", milliseconds(row.time)},
                                        {"step", row.step}}));
      }
      last_time_ = row.time;
    }
    send();
  }

  void finish(bool succeeded) override { update(succeeded ? "FINISHED" : "FAILED"); }

 private:
  void update(const char* status) {
    Json change = Json::object({{"run_id", run_id_}, {"status", status}});
    if (std::string_view(status) != "RUNNING") change["end_time"] = milliseconds(last_time_);
    post("runs/update", change);
  }

  std::string experiment_id() {
    const HttpResponse found = send("GET", "experiments/get-by-name?experiment_name=" + url_escape(experiment_), "");
    if (found.ok()) return parsed(found).at("experiment").at("experiment_id").as_string();
    if (found.status != 404) refuse(found);
    return post("experiments/create", Json::object({{"name", experiment_}})).at("experiment_id").as_string();
  }

  Json post(const std::string& path, const Json& body) {
    const HttpResponse response = send("POST", path, body.dump());
    if (!response.ok()) refuse(response);
    return parsed(response);
  }

  HttpResponse send(const std::string& method, const std::string& path, const std::string& body) {
    HttpRequest request;
    request.method = method;
    request.url = uri_ + "/api/2.0/mlflow/" + path;
    if (method == "POST") request.headers = {"Content-Type: application/json"};
    if (!authorization_.empty()) request.headers.push_back(authorization_);
    request.body = body;
    return client_.send(request);
  }

  Json parsed(const HttpResponse& response) const { return Json::parse(response.body, {.where = response.url}); }

  [[noreturn]] void refuse(const HttpResponse& response) const {
    fail<IoError>(response.url, " answered with status ", response.status, ": ", response.body.substr(0, 200));
  }

  std::string uri_, experiment_, name_, authorization_, run_id_;
  HttpClient client_;
  double last_time_ = 0;
};

}  // namespace

std::unique_ptr<Tracker> make_mlflow_tracker(const TrainingArguments& arguments, const TrackedRun& run,
                                             std::stop_token stop) {
  const std::string uri = chosen(arguments.trackers.mlflow_tracking_uri, "MLFLOW_TRACKING_URI", "");
  require<ConfigError>(!uri.empty(),
                       "[mlflow] report_to: mlflow needs a server. Set mlflow_tracking_uri (or MLFLOW_TRACKING_URI) to "
                       "its URL; `mlflow server` starts one.");
  require<NotSupportedError>(uri.starts_with("http://") || uri.starts_with("https://"),
                             "[mlflow] MLFLOW_TRACKING_URI must be the URL of a server, http://HOST:PORT; got ", uri,
                             ". Start one with `mlflow server`.");
  return std::make_unique<MlflowTracker>(arguments.trackers, uri, default_project(arguments), run, std::move(stop));
}

}  // namespace easydel
