// Fine-tunes an encoder-decoder on rows with a prompt and a completion, then generates from a prompt.
// usage: seq2seq MODEL_DIRECTORY DATA.jsonl OUTPUT_DIRECTORY STEPS PROMPT
#include <ATen/ATen.h>
#include <easydel/easydel.h>

#include <iostream>

namespace ed = easydel;

int main(int argc, char** argv) {
  if (argc != 6) {
    std::cerr << "usage: seq2seq MODEL_DIRECTORY DATA.jsonl OUTPUT_DIRECTORY STEPS PROMPT\n";
    return 2;
  }
  try {
    const ed::TrainResult result = ed::ELargeModel::from_pretrained(argv[1])
                                       .set_dtype("fp32")
                                       .set_sharding({.axis_dims = {1, 1, 1, 1, 1}})
                                       .add_dataset({.data_files = argv[2]})
                                       .set_trainer("sft", {.save_directory = argv[3],
                                                            .max_training_steps = std::stoll(argv[4]),
                                                            .total_batch_size = 8,
                                                            .learning_rate = 3e-3,
                                                            .learning_rate_end = 0,
                                                            .scheduler = "linear",
                                                            .max_length = 64,
                                                            .verbose = false})
                                       .train();
    std::cout << "loss " << result.metrics.at("loss") << " after " << result.step << " steps\n";

    const std::string checkpoint = result.checkpoint.string();
    const auto model = ed::AutoModelForSeq2SeqLM::from_pretrained(checkpoint, {.verbose = false});
    const ed::AutoTokenizer tokenizer = ed::AutoTokenizer::from_directory(checkpoint);
    const at::Tensor source = at::tensor(tokenizer->encode_ids(argv[5]), at::kInt).to(at::kLong).unsqueeze(0);
    const auto out = model->generate(source, {.generation_config = {.max_new_tokens = 16}});
    const at::Tensor ids = out.sequences[0].narrow(0, out.prompt_length, out.lengths[0]).to(at::kInt).contiguous();
    std::cout << tokenizer->decode({ids.data_ptr<int32_t>(), static_cast<std::size_t>(ids.numel())}) << "\n";
  } catch (const ed::Error& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
