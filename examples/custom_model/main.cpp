// A custom architecture in one file: a decoder without position embeddings ("nope"), with attention and MLP in
// parallel. It is trained for a few steps, saved, and loaded again by name. usage: custom_model DIRECTORY
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <easydel/easydel.h>

#include <iostream>

namespace ed = easydel;

// The keys of config.json: each field is listed once.
struct NopeConfig : ed::Config<NopeConfig> {
  static constexpr std::string_view kModelType = "nope";

  NopeConfig() {
    vocab_size = 64;
    hidden_size = 32;
    intermediate_size = 64;
    num_hidden_layers = 2;
    num_attention_heads = 4;
    hidden_act = "silu";
    max_position_embeddings = 128;
  }

  double norm_eps = 1e-5;

  void fields(ed::FieldVisitor& v) override {
    v("vocab_size", vocab_size, "Tokens in the vocabulary.");
    v("hidden_size", hidden_size, "Width of the residual stream.");
    v("intermediate_size", intermediate_size, "Width of the MLP.");
    v("num_hidden_layers", num_hidden_layers, "Decoder layers.");
    v("num_attention_heads", num_attention_heads, "Heads.");
    v("hidden_act", hidden_act, "Activation of the MLP.");
    v("max_position_embeddings", max_position_embeddings, "Maximum sequence length.");
    v("norm_eps", norm_eps, "Epsilon of the norms.");
  }
  void validate() const override {
    BaseConfig::validate();
    const ed::ConfigCheck check(*this);
    check.decoder();
    check.above_zero("norm_eps", norm_eps);
  }
};

// Child modules have the names used in checkpoint files.
class NopeLayer : public ed::DecoderLayer {
 public:
  NopeLayer(const NopeConfig& c, int64_t layer_idx)
      : norm_(add<ed::RMSNorm>("norm", c.hidden_size, c.norm_eps)),
        attention_(add<ed::Attention>("attention", ed::AttentionSpec{.hidden_size = c.hidden_size,
                                                                     .num_heads = c.num_attention_heads,
                                                                     .num_kv_heads = c.num_attention_heads,
                                                                     .head_dim = c.head_size(),
                                                                     .layer_idx = layer_idx,
                                                                     .rope = std::nullopt})),
        mlp_(add<ed::MLP>(
            "mlp",
            ed::MlpSpec{.hidden_size = c.hidden_size, .intermediate_size = c.intermediate_size, .act = c.hidden_act})) {
  }

  ed::LayerOutput operator()(const at::Tensor& x, const ed::ForwardContext& ctx) const override {
    const at::Tensor normed = norm_(x);
    const ed::Attention::Output attended = attention_(normed, ctx);
    return {.hidden = x + attended.hidden + mlp_(normed), .attention_weights = attended.weights};
  }

 private:
  const ed::RMSNorm& norm_;
  const ed::Attention& attention_;
  const ed::MLP& mlp_;
};

class NopeModel : public ed::BaseModule, public ed::Pretrained<NopeModel> {
 public:
  using ConfigType = NopeConfig;

  explicit NopeModel(const NopeConfig& c)
      : BaseModule(c),
        embeddings_(add<ed::Embedding>("embeddings", c.vocab_size, c.hidden_size)),
        layers_(add<ed::ModuleList<NopeLayer>>("layers")),
        norm_(add<ed::RMSNorm>("norm", c.hidden_size, c.norm_eps)) {
    for (int64_t i = 0; i < c.num_hidden_layers; ++i) layers_.append(c, i);
  }

  ed::ModelOutput forward(const ed::PreparedInputs& inputs) const override {
    return ed::run_decoder(*this, inputs, ed::embed(inputs, embeddings_), layers_, norm_);
  }
  const ed::Embedding& embeddings() const { return embeddings_; }

 private:
  const ed::Embedding& embeddings_;
  ed::ModuleList<NopeLayer>& layers_;
  const ed::RMSNorm& norm_;
};

class NopeForCausalLM : public ed::ForCausalLM<NopeModel>, public ed::Pretrained<NopeForCausalLM> {
 public:
  using ForCausalLM::ForCausalLM;
};

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: custom_model DIRECTORY\n";
    return 2;
  }
  try {
    ed::register_config<NopeConfig>();
    ed::register_module<NopeModel>(ed::TaskType::BaseModule);
    ed::register_module<NopeForCausalLM>(ed::TaskType::CausalLM);

    const auto model = ed::make_model<NopeForCausalLM>(NopeConfig(), {.rngs = ed::RandomKey(7)});
    ed::printify(*model);

    const at::Tensor ids = at::arange(48, at::kLong).mul(5).remainder(64).view({3, 16});
    for (int step = 0; step < 5; ++step) {
      const ed::ModelOutput out = (*model)({.input_ids = ids, .labels = ids});
      out.loss.backward();
      const at::NoGradGuard no_grad;
      for (const auto& [path, parameter] : model->params()) {
        parameter.sub_(parameter.grad(), /*alpha=*/0.5);
        parameter.mutable_grad().reset();
      }
      std::cout << "step " << step << ": loss " << out.loss.item<float>() << "\n";
    }

    model->save_pretrained(argv[1], {.verbose = false});
    const auto loaded = ed::AutoModelForCausalLM::from_pretrained(argv[1], {.verbose = false});
    const bool equal = at::equal((*loaded)({.input_ids = ids}).logits, (*model)({.input_ids = ids}).logits);
    std::cout << loaded->type_name() << " from files: " << (equal ? "the same logits" : "other logits") << "\n";
    return equal ? 0 : 1;
  } catch (const ed::Error& error) {
    std::cerr << "custom_model: " << error.what() << "\n";
    return 1;
  }
}
