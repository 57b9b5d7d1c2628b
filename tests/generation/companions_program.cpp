// usage: companions_program FROM TO ID,ID,…
// Loads a Llama by its own class, generates without arguments, saves the model as TO and a training state of it as
// TO-state, and prints the tokens as JSON.
// usage: companions_program tokenizer FROM TO
// Loads a tokenizer and saves it.
#include <ATen/ATen.h>

#include <iostream>

#include "easydel/core/json/json.h"
#include "easydel/generation/generate.h"
#include "easydel/infra/state/state.h"
#include "easydel/models/llama/model.h"
#include "easydel/optim/optimizers.h"
#include "easydel/tokenizers/auto_tokenizer.h"

int main(int argc, char** argv) {
  using namespace easydel;
  if (argc != 4) return 2;
  try {
    if (std::string_view(argv[1]) == "tokenizer") {
      AutoTokenizer::from_pretrained(argv[2]).save_pretrained(argv[3]);
      return 0;
    }
    const std::shared_ptr<LlamaForCausalLM> model = LlamaForCausalLM::from_pretrained(argv[1], {.verbose = false});
    const Json given = Json::parse(concat("[", argv[3], "]"));
    std::vector<int64_t> ids;
    for (const Json& id : given.as_array()) ids.push_back(id.as_int());
    const at::Tensor out = model->generate(at::tensor(ids, at::kLong).unsqueeze(0)).sequences.select(0, 0).contiguous();
    model->save_pretrained(argv[2], {.verbose = false});
    model->to_state(optim::sgd(0.1)).save_state(std::string(argv[2]) + "-state", {.verbose = false});
    std::cout
        << Json(std::vector<int64_t>(out.const_data_ptr<int64_t>(), out.const_data_ptr<int64_t>() + out.numel())).dump()
        << "\n";
    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
