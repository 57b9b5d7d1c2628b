#include "easydel/serve/openai/pooling/pooling.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <numeric>

#include "easydel/io/hub/base64.h"
#include "easydel/serve/openai/generation.h"
#include "easydel/serve/openai/ids.h"
#include "easydel/serve/openai/pooling/pooling_inputs.h"

namespace easydel::serve {
namespace {

// The shortest number that reads back as this float: a double would print digits that mean nothing.
Json pooling_number(float value) {
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  double exact = 0.0;
  std::from_chars(text.data(), end, exact);
  return exact;
}

double pooling_dot(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * b[i];
  return sum;
}

void pooling_normalize(std::vector<float>& values) {
  const double length = std::sqrt(pooling_dot(values, values));
  if (length == 0.0) return;
  for (float& value : values) value = static_cast<float>(value / length);
}

double pooling_cosine(const std::vector<float>& a, const std::vector<float>& b) {
  const double lengths = std::sqrt(pooling_dot(a, a)) * std::sqrt(pooling_dot(b, b));
  return lengths == 0.0 ? 0.0 : pooling_dot(a, b) / lengths;
}

Json pooling_usage(int64_t tokens) { return Json::object({{"prompt_tokens", tokens}, {"total_tokens", tokens}}); }

// Waits for the vectors of all requests and answers with what `make` makes of them.
class PoolingSink final : public GenerationSink, public std::enable_shared_from_this<PoolingSink> {
 public:
  using Vectors = std::vector<std::vector<float>>;
  using Make = std::function<Json(Vectors vectors, int64_t prompt_tokens)>;

  PoolingSink(const ApiCall& call, std::size_t count, Make make)
      : service_(call.service), reply_(call.reply), make_(std::move(make)), vectors_(count) {}

  bool output(std::size_t index, const RequestOutput& output) override {
    if (!output.embedding.empty()) vectors_[index] = output.embedding;
    if (output.finish) tokens_ += output.prompt_tokens;
    return reply_.is_open();
  }

  // Thousands of numbers are written by a worker, not by the engine's thread.
  void finished() override {
    service_->workers.post([self = shared_from_this()] { self->send(); });
  }

  void failed(const ApiError& error) override {
    service_->metrics.http(error.status());
    reply_.send(error_response(error));
  }

 private:
  void send() {
    try {
      reply_.send(json_response(make_(std::move(vectors_), tokens_)));
    } catch (...) {
      failed(to_api_error(std::current_exception()));
    }
  }

  std::shared_ptr<ServiceContext> service_;
  HttpReply reply_;
  Make make_;
  Vectors vectors_;
  int64_t tokens_ = 0;
};

void pooling_start(const ApiCall& call, std::vector<PoolingPrompt> prompts, RequestKind kind,
                   const PoolingCommon& common, PoolingSink::Make make) {
  std::vector<Request> requests;
  for (PoolingPrompt& prompt : prompts) {
    pooling_check(*call.service, prompt);
    requests.push_back({.prompt = std::move(prompt.tokens),
                        .sampling = {},
                        .priority = common.priority,
                        .adapter = common.model.adapter,
                        .kind = kind});
  }
  const auto sink = std::make_shared<PoolingSink>(call, requests.size(), std::move(make));
  start_generation(call, std::move(requests), sink);
}

struct EmbeddingForm {
  bool base64 = false;
  bool normalize = true;
  std::optional<int64_t> dimensions;
};

Json pooling_embedding(std::vector<float> values, const EmbeddingForm& form) {
  const auto size = static_cast<int64_t>(values.size());
  if (form.dimensions) {
    require_field(*form.dimensions <= size, "dimensions", "dimensions must be at most ", size,
                  ", the size of the model's embeddings; got ", *form.dimensions, ".");
    values.resize(static_cast<std::size_t>(*form.dimensions));
  }
  if (form.normalize) pooling_normalize(values);
  if (form.base64) return floats_base64(values);
  Json numbers = Json::array();
  for (const float value : values) numbers.push_back(pooling_number(value));
  return numbers;
}

void pooling_embeddings(ApiCall& call) {
  const Json body = parse_body(call.request.body);
  Fields fields(body);
  const PoolingCommon common = read_pooling_common(fields, *call.service);
  require_field(call.service->engine->info().can_embed, "model", "the model `", common.model.name,
                "` does not support embeddings.");
  EmbeddingForm form{
      .base64 = false, .normalize = fields.boolean("normalize", true), .dimensions = fields.integer("dimensions", 1)};
  const std::string encoding = fields.string("encoding_format").value_or("float");
  require_field(encoding == "float" || encoding == "base64", "encoding_format",
                "encoding_format must be float or base64; got \"", encoding, "\".");
  form.base64 = encoding == "base64";
  auto prompts = read_pooling_prompts(fields, "input", *call.service);
  fields.refuse_rest(kPoolingRefused);
  pooling_start(
      call, std::move(prompts), RequestKind::Embed, common,
      [form, name = common.model.name](PoolingSink::Vectors vectors, int64_t tokens) {
        Json data = Json::array();
        for (std::size_t i = 0; i < vectors.size(); ++i) {
          data.push_back(Json::object(
              {{"object", "embedding"}, {"index", i}, {"embedding", pooling_embedding(std::move(vectors[i]), form)}}));
        }
        return Json::object(
            {{"object", "list"}, {"data", std::move(data)}, {"model", name}, {"usage", pooling_usage(tokens)}});
      });
}

// One logit is the score of a pair before the sigmoid, as cross-encoders are trained.
double pooling_pair_score(const std::vector<float>& logits) {
  require_field(logits.size() == 1, "model", "scores need a classifier with one label; the model has ", logits.size(),
                ".");
  return 1.0 / (1.0 + std::exp(-static_cast<double>(logits[0])));
}

using ScoresToJson = std::function<Json(std::vector<double> scores, int64_t prompt_tokens)>;

// `first` has one text for all of `second`, or as many.
void pooling_compare(ApiCall& call, const PoolingCommon& common, const std::vector<PoolingText>& first,
                     const std::vector<PoolingText>& second, ScoresToJson make) {
  const EngineInfo& info = call.service->engine->info();
  std::vector<PoolingPrompt> prompts;
  if (info.can_classify) {
    for (std::size_t i = 0; i < second.size(); ++i) {
      const PoolingText& one = first[first.size() == 1 ? 0 : i];
      prompts.push_back(pooling_pair(*call.service, one, second[i], common.add_special_tokens));
    }
    pooling_start(call, std::move(prompts), RequestKind::Classify, common,
                  [make = std::move(make)](const PoolingSink::Vectors& logits, int64_t tokens) {
                    std::vector<double> scores;
                    for (const auto& row : logits) scores.push_back(pooling_pair_score(row));
                    return make(std::move(scores), tokens);
                  });
    return;
  }
  require_field(info.can_embed, "model", "the model `", common.model.name,
                "` does not support scores: it neither "
                "classifies nor embeds.");
  for (const auto* texts : {&first, &second}) {
    for (const PoolingText& text : *texts)
      prompts.push_back(pooling_prompt(*call.service, text, common.add_special_tokens));
  }
  pooling_start(call, std::move(prompts), RequestKind::Embed, common,
                [make = std::move(make), count = first.size()](const PoolingSink::Vectors& rows, int64_t tokens) {
                  std::vector<double> scores;
                  for (std::size_t i = count; i < rows.size(); ++i) {
                    scores.push_back(pooling_cosine(rows[count == 1 ? 0 : i - count], rows[i]));
                  }
                  return make(std::move(scores), tokens);
                });
}

void pooling_score(ApiCall& call) {
  const Json body = parse_body(call.request.body);
  Fields fields(body);
  const PoolingCommon common = read_pooling_common(fields, *call.service);
  const auto first = read_pooling_texts(fields, "text_1");
  const auto second = read_pooling_texts(fields, "text_2");
  fields.refuse_rest(kPoolingRefused);
  require_field(first.size() == 1 || first.size() == second.size(), "text_1",
                "text_1 must be one text or as many as text_2; got ", first.size(), " and ", second.size(), ".");
  pooling_compare(call, common, first, second,
                  [name = common.model.name](const std::vector<double>& scores, int64_t tokens) {
                    Json data = Json::array();
                    for (std::size_t i = 0; i < scores.size(); ++i) {
                      data.push_back(Json::object({{"index", i}, {"object", "score"}, {"score", scores[i]}}));
                    }
                    return Json::object({{"id", make_id("score-")},
                                         {"object", "list"},
                                         {"created", unix_time()},
                                         {"model", name},
                                         {"data", std::move(data)},
                                         {"usage", pooling_usage(tokens)}});
                  });
}

Json rerank_results(const std::vector<double>& scores, const std::vector<PoolingText>& documents, std::size_t most,
                    bool with_documents) {
  std::vector<std::size_t> order(scores.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return scores[a] > scores[b]; });
  order.resize(std::min(order.size(), most));
  Json results = Json::array();
  for (const std::size_t i : order) {
    Json result = Json::object({{"index", i}});
    if (with_documents) result["document"] = Json::object({{"text", documents[i].text}});
    result["relevance_score"] = scores[i];
    results.push_back(std::move(result));
  }
  return results;
}

void pooling_rerank(ApiCall& call) {
  const Json body = parse_body(call.request.body);
  Fields fields(body);
  const PoolingCommon common = read_pooling_common(fields, *call.service);
  const auto query = fields.string("query");
  require_field(query.has_value(), "query", "query is required.");
  const auto documents = read_pooling_texts(fields, "documents");
  const int64_t top_n = fields.integer("top_n", 0).value_or(0);  // 0: all of them, as vLLM has it
  const bool with_documents = fields.boolean("return_documents", true);
  fields.refuse_rest(kPoolingRefused);
  const std::size_t most = top_n == 0 ? documents.size() : static_cast<std::size_t>(top_n);
  pooling_compare(call, common, {{.text = *query, .path = "query"}}, documents,
                  [=, name = common.model.name](const std::vector<double>& scores, int64_t tokens) {
                    return Json::object({{"id", make_id("rerank-")},
                                         {"model", name},
                                         {"usage", pooling_usage(tokens)},
                                         {"results", rerank_results(scores, documents, most, with_documents)}});
                  });
}

}  // namespace

std::string floats_base64(const std::vector<float>& values) {
  std::string bytes;
  bytes.reserve(values.size() * 4);
  for (const float value : values) {
    const auto bits = std::bit_cast<uint32_t>(value);
    for (int shift = 0; shift < 32; shift += 8) bytes.push_back(static_cast<char>(bits >> shift & 0xFF));
  }
  return base64_encode(bytes);
}

void add_pooling_routes(Service& service) {
  service.add({.method = "POST", .path = "/v1/embeddings", .handler = pooling_embeddings});
  for (const char* path : {"/v1/score", "/score"}) {
    service.add({.method = "POST", .path = path, .handler = pooling_score});
  }
  for (const char* path : {"/v1/rerank", "/rerank", "/v2/rerank"}) {
    service.add({.method = "POST", .path = path, .handler = pooling_rerank});
  }
}

}  // namespace easydel::serve
