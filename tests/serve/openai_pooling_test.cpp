// /v1/embeddings, /v1/score and /v1/rerank with an engine that follows a script.
#include <cmath>

#include "easydel/serve/openai/pooling/pooling.h"
#include "tests/serve/openai_fixture.h"

namespace easydel::serve::testing_support {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class PoolingTest : public ServiceTest {
 protected:
  // Every request has this vector.
  void answer_with(std::vector<float> vector) {
    RequestOutput output;
    output.embedding = std::move(vector);
    output.finish = Finish::Stop;
    engine->script = {output};
  }
  // The test emits the vectors, in the order of the requests.
  Answer post_with(const std::string& path, const std::string& body, const std::vector<std::vector<float>>& vectors) {
    engine->script.clear();
    const auto reply = start("POST", path, body);
    for (std::size_t i = 0; i < vectors.size(); ++i) {
      RequestOutput output;
      output.embedding = vectors[i];
      output.finish = Finish::Stop;
      output.prompt_tokens = 2;
      engine->emit(i, output);
    }
    return read_answer(reply->wait());
  }
};

TEST_F(PoolingTest, AnEmbeddingHasLengthOne) {
  answer_with({3.0F, 4.0F});
  const Answer answer = post("/v1/embeddings", R"({"input": "a b", "user": "u"})");
  ASSERT_EQ(answer.status, 200) << answer.raw.body;
  EXPECT_EQ(answer.json.at("object"), Json("list"));
  EXPECT_EQ(answer.json.at("data").at(0).at("embedding").dump(), "[0.6, 0.8]");
  EXPECT_EQ(answer.json.at("usage"), Json::parse(R"({"prompt_tokens": 3, "total_tokens": 3})"));
  EXPECT_THAT(engine->last().prompt, ElementsAre(1, 5, 6));
  EXPECT_EQ(engine->last().kind, RequestKind::Embed);
}

TEST_F(PoolingTest, DimensionsAreTheFirstOnesAndNormalizedAgain) {
  answer_with({3.0F, 4.0F, 12.0F});
  const Answer answer = post("/v1/embeddings", R"({"input": "a", "dimensions": 2, "encoding_format": "base64"})");
  EXPECT_EQ(answer.json.at("data").at(0).at("embedding"), Json(floats_base64({0.6F, 0.8F})));
  const Answer raw = post("/v1/embeddings", R"({"input": "a", "dimensions": 1, "normalize": false})");
  EXPECT_EQ(raw.json.at("data").at(0).at("embedding").dump(), "[3.0]");
  const Answer more = post("/v1/embeddings", R"({"input": "a", "dimensions": 4})");
  EXPECT_EQ(more.status, 400);
  EXPECT_EQ(more.error_message(), "dimensions must be at most 3, the size of the model's embeddings; got 4.");
  EXPECT_EQ(more.error_param(), "dimensions");
}

TEST_F(PoolingTest, InputsAreTextsOrTokenIds) {
  answer_with({1.0F});
  EXPECT_EQ(post("/v1/embeddings", R"({"input": [7, 8]})").json.at("data").size(), 1U);
  EXPECT_THAT(engine->last().prompt, ElementsAre(7, 8));
  const Answer several = post("/v1/embeddings", R"({"input": ["a", [9], "b"], "add_special_tokens": false})");
  ASSERT_EQ(several.status, 200) << several.raw.body;
  EXPECT_EQ(several.json.at("data").at(2).at("index"), Json(2));
  EXPECT_THAT(engine->last().prompt, ElementsAre(6));
}

TEST_F(PoolingTest, BadInputsAreRefusedByName) {
  answer_with({1.0F});
  std::string long_text;
  for (int i = 0; i < 70; ++i) long_text += "a ";
  const std::vector<std::array<std::string, 2>> cases{
      {R"({})", "input is required."},
      {R"({"input": 3})", "input must be a string, an array of strings or token ids; got an integer."},
      {R"({"input": []})", "input must have 1 to 2048 entries; got 0."},
      {R"({"input": [[]]})", "input[0] must not be empty."},
      {R"({"input": [1, "a"]})", "input must contain only token ids; got \"a\"."},
      {R"({"input": ["a", 3]})", "input[1] must be a string or an array of token ids; got an integer."},
      {R"({"input": [31]})", "input must have token ids below 31; got 31."},
      {R"({"input": "a", "encoding_format": "int8"})", "encoding_format must be float or base64; got \"int8\"."},
      {R"({"input": "a", "truncate_prompt_tokens": 4})",
       "truncate_prompt_tokens is not supported: an input that is too long is refused, not cut."},
      {R"({"input": ")" + long_text + "\"}",
       "This model's maximum context length is 64 tokens. However, input has 71 tokens. Please reduce its length."}};
  for (const auto& [body, message] : cases) {
    const Answer answer = post("/v1/embeddings", body);
    EXPECT_EQ(answer.status, 400) << body;
    EXPECT_EQ(answer.error_message(), message);
  }
}

TEST_F(PoolingTest, AModelThatCannotSaysSo) {
  engine->facts.can_embed = false;
  EXPECT_EQ(post("/v1/embeddings", R"({"input": "a"})").error_message(),
            "the model `model` does not support embeddings.");
  EXPECT_THAT(post("/score", R"({"text_1": "a", "text_2": "b"})").error_message(),
              HasSubstr("does not support scores"));
}

TEST_F(PoolingTest, AClassifierScoresPairs) {
  engine->facts.can_classify = true;
  answer_with({0.0F});
  const Answer answer = post("/v1/score", R"({"text_1": "a", "text_2": ["b", "c"]})");
  ASSERT_EQ(answer.status, 200) << answer.raw.body;
  EXPECT_EQ(answer.json.at("data").at(1), Json::parse(R"({"index": 1, "object": "score", "score": 0.5})"));
  EXPECT_EQ(engine->last().kind, RequestKind::Classify);
  EXPECT_THAT(engine->last().prompt, ElementsAre(5, 7));
  answer_with({1.0F, 2.0F});
  EXPECT_EQ(post("/v1/score", R"({"text_1": "a", "text_2": "b"})").error_message(),
            "scores need a classifier with one label; the model has 2.");
}

TEST_F(PoolingTest, EmbeddingsScoreByTheirAngle) {
  const Answer answer =
      post_with("/v1/score", R"({"text_1": "a", "text_2": ["b", "c"]})", {{1.0F, 0.0F}, {2.0F, 0.0F}, {0.0F, 3.0F}});
  EXPECT_EQ(answer.json.at("data").at(0).at("score"), Json(1.0));
  EXPECT_EQ(answer.json.at("data").at(1).at("score"), Json(0.0));
  EXPECT_EQ(answer.json.at("usage").at("prompt_tokens"), Json(6));
  EXPECT_EQ(post("/v1/score", R"({"text_1": ["a", "b"], "text_2": ["c", "d", "e"]})").error_message(),
            "text_1 must be one text or as many as text_2; got 2 and 3.");
}

TEST_F(PoolingTest, RanksTheBestFirst) {
  const Answer answer = post_with("/rerank", R"({"query": "q", "documents": ["a", {"text": "b"}, "c"], "top_n": 2})",
                                  {{1.0F, 0.0F}, {0.0F, 1.0F}, {1.0F, 0.0F}, {1.0F, 1.0F}});
  ASSERT_EQ(answer.status, 200) << answer.raw.body;
  const Json& results = answer.json.at("results");
  ASSERT_EQ(results.size(), 2U);
  EXPECT_EQ(results.at(0), Json::parse(R"({"index": 1, "document": {"text": "b"}, "relevance_score": 1.0})"));
  EXPECT_EQ(results.at(1).at("index"), Json(2));
  EXPECT_NEAR(results.at(1).at("relevance_score").as_double(), std::sqrt(0.5), 1e-6);
  answer_with({1.0F});
  const Answer bare = post("/v1/rerank", R"({"query": "q", "documents": ["a"], "return_documents": false})");
  EXPECT_FALSE(bare.json.at("results").at(0).contains("document"));
  EXPECT_EQ(post("/v1/rerank", R"({"documents": ["a"]})").error_message(), "query is required.");
  EXPECT_EQ(post("/v1/rerank", R"({"query": "q", "documents": [3]})").error_message(),
            "documents[0] must be a string or an object with \"text\"; got an integer.");
}

}  // namespace
}  // namespace easydel::serve::testing_support
