// Image search with CLIP: ranks the images of a folder by their similarity to each text.
// usage: clip_search MODEL_DIRECTORY FOLDER TEXT…
#include <ATen/ATen.h>
#include <easydel/easydel.h>

#include <algorithm>
#include <iostream>

namespace ed = easydel;
namespace fs = std::filesystem;

namespace {

// [texts, tokens], padded to the longest text.
at::Tensor to_ids(const ed::AutoTokenizer& tokenizer, const std::vector<std::string>& texts) {
  const int64_t pad = *tokenizer->token_to_id(*tokenizer.config().special_token("pad_token"));
  std::vector<std::vector<int32_t>> rows;
  std::size_t longest = 0;
  for (const std::string& text : texts) {
    rows.push_back(tokenizer->encode_ids(text));
    longest = std::max(longest, rows.back().size());
  }
  at::Tensor ids = at::full({static_cast<int64_t>(rows.size()), static_cast<int64_t>(longest)}, pad, at::kLong);
  for (std::size_t i = 0; i < rows.size(); ++i)
    ids[static_cast<int64_t>(i)]
        .narrow(0, 0, static_cast<int64_t>(rows[i].size()))
        .copy_(at::tensor(rows[i], at::kInt));
  return ids;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    std::cerr << "usage: clip_search MODEL_DIRECTORY FOLDER TEXT…\n";
    return 2;
  }
  try {
    const std::vector<std::string> texts(argv + 3, argv + argc);
    const auto model = ed::AutoModelForZeroShotImageClassification::from_pretrained(argv[1], {.verbose = false});
    const ed::ImageProcessor processor = ed::AutoImageProcessor::from_pretrained(argv[1]);
    const ed::AutoTokenizer tokenizer = ed::AutoTokenizer::from_directory(argv[1]);

    std::vector<fs::path> files;
    for (const fs::directory_entry& entry : fs::directory_iterator(argv[2])) files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    std::vector<at::Tensor> images;
    for (const fs::path& file : files) images.push_back(processor.load(file));

    const at::NoGradGuard no_grad;
    const ed::ModelOutput out = (*model)({.input_ids = to_ids(tokenizer, texts), .pixel_values = processor(images)});
    const auto [scores, places] =
        out.logits_per_text.softmax(-1).topk(std::min<int64_t>(3, out.logits_per_text.size(1)));
    for (std::size_t i = 0; i < texts.size(); ++i) {
      std::cout << texts[i] << ":";
      for (int64_t j = 0; j < places.size(1); ++j) {
        const auto at = static_cast<int64_t>(i);
        std::cout << " " << files[static_cast<std::size_t>(places[at][j].item<int64_t>())].filename().string() << " "
                  << scores[at][j].item<double>();
      }
      std::cout << "\n";
    }
  } catch (const ed::Error& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
