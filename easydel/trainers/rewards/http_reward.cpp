// A server that judges completions together: POST {"prompts": …, "completions": …, "rows": …}, answered with a list of
// numbers, or with an object whose "rewards" is that.
#include <chrono>

#include "easydel/core/error.h"
#include "easydel/io/hub/http.h"
#include "easydel/trainers/rewards/builtin_rewards.h"

namespace easydel {
namespace {

class HttpReward final : public Reward {
 public:
  explicit HttpReward(RewardSettings& settings)
      : url_(settings.text("url")), timeout_(static_cast<int64_t>(settings.number("timeout", 10))) {
    require<ConfigError>(timeout_.count() > 0, "[rewards] timeout of http must be at least one second.");
    const double workers = settings.number("workers", 1);
    require<ConfigError>(workers >= 1 && workers <= kMaxRewardWorkers, "[rewards] workers of http must be from 1 to ",
                         kMaxRewardWorkers, "; got ", workers, ".");
    lanes_.count = static_cast<std::size_t>(workers);
    const std::string batch = settings.text("batch", "group");
    require<ConfigError>(batch == "group" || batch == "rollout",
                         "[rewards] batch of http must be \"group\" or \"rollout\"; got \"", batch, "\".");
    lanes_.unit = batch == "group" ? RewardLanes::Unit::Group : RewardLanes::Unit::Rollout;
  }
  std::string name() const override { return "http"; }
  RewardLanes lanes() const override { return lanes_; }

  RewardScores score(const std::vector<RewardInput>& inputs) override {
    Json prompts = Json::array(), completions = Json::array(), rows = Json::array();
    for (const RewardInput& input : inputs) {
      prompts.push_back(input.prompt);
      completions.push_back(input.completion);
      rows.push_back(input.row ? *input.row : Json());
    }
    const std::string where = "[rewards] " + url_;
    HttpRequest request;
    request.method = "POST";
    request.url = url_;
    request.headers = {"Content-Type: application/json"};
    request.body = Json::object({{"prompts", prompts}, {"completions", completions}, {"rows", rows}}).dump();
    request.silence_limit = timeout_;
    HttpClient client({.user_agent = "easydel", .token = "", .trusted_url = "", .silence_limit = timeout_, .stop = {}});
    const HttpResponse response = client.send(request);
    require<IoError>(response.ok(), where, " answered with status ", response.status, ": ",
                     response.body.substr(0, 200));
    const Json answer = Json::parse(response.body, {.where = where});
    const Json& scores = answer.is_object() ? answer.at("rewards") : answer;
    require<IoError>(scores.is_array() && scores.size() == inputs.size(), where,
                     " must return a list with a number or null for each of the ", inputs.size(), " completions; got ",
                     scores.is_array() ? concat(scores.size()) : std::string(scores.type_name()), ".");
    RewardScores all;
    for (const Json& each : scores.as_array()) all.push_back(score_of(each, where));
    return all;
  }

 private:
  std::string url_;
  std::chrono::seconds timeout_;
  RewardLanes lanes_;
};

}  // namespace

std::unique_ptr<Reward> make_http_reward(RewardSettings& settings) { return std::make_unique<HttpReward>(settings); }

}  // namespace easydel
