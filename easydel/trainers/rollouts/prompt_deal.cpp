#include "easydel/trainers/rollouts/prompt_deal.h"

#include "easydel/sharding/parallel.h"

namespace easydel {

PromptDeal::PromptDeal(const std::vector<std::vector<data::Example>>& batches, const GenerationContext& context,
                       const Parallel* parallel) {
  if (parallel) {
    parts = parallel->mesh().size(parallel->batch());
    index = parallel->mesh().index(parallel->batch());
  }
  minibatches = context.is_evaluation ? 1 : context.arguments.gradient_accumulation_steps;
  each = static_cast<int64_t>(batches.front().size()) / minibatches;
}

std::size_t PromptDeal::place(std::size_t batch, int64_t part, int64_t own) const {
  return batch * static_cast<std::size_t>(of_step()) +
         static_cast<std::size_t>((own / each * parts + part) * each + own % each);
}

std::vector<Prompt> gather_prompts(const std::vector<std::vector<data::Example>>& batches, const PromptDeal& deal,
                                   const Parallel* parallel, at::Device device) {
  std::vector<Prompt> all(batches.size() * static_cast<std::size_t>(deal.of_step()));
  if (deal.parts == 1) {
    for (std::size_t b = 0; b < batches.size(); ++b) {
      for (std::size_t i = 0; i < batches[b].size(); ++i)
        all[deal.place(b, static_cast<int64_t>(i))] = {batches[b][i].others.at("prompt_ids"), batches[b][i].row};
    }
    return all;
  }
  Json own = Json::array();
  for (const auto& batch : batches) {
    Json list = Json::array();
    for (const data::Example& example : batch)
      list.push_back(Json::object({{"ids", example.others.at("prompt_ids")}, {"row", example.row}}));
    own.push_back(std::move(list));
  }
  const std::vector<std::string> texts = gather_texts(own.dump(), parallel, device);
  for (std::size_t part = 0; part < texts.size(); ++part) {
    const Json theirs = Json::parse(texts[part]);
    for (std::size_t b = 0; b < theirs.size(); ++b) {
      for (std::size_t i = 0; i < theirs.at(b).size(); ++i) {
        const Json& given = theirs.at(b).at(i);
        Prompt& prompt = all[deal.place(b, static_cast<int64_t>(part), static_cast<int64_t>(i))];
        for (const Json& id : given.at("ids").as_array()) prompt.ids.push_back(id.as_int());
        prompt.row = given.at("row");
      }
    }
  }
  return all;
}

}  // namespace easydel
