#include "easydel/generation/speech/timestamp_processor.h"

#include <ATen/ATen.h>

namespace easydel {

WhisperTimeStampLogitsProcessor::WhisperTimeStampLogitsProcessor(int64_t no_timestamps_token_id, int64_t eos_token_id,
                                                                 int64_t begin_index,
                                                                 std::optional<int64_t> max_initial_timestamp_index)
    : no_timestamps_(no_timestamps_token_id),
      eos_(eos_token_id),
      begin_(begin_index),
      max_initial_(max_initial_timestamp_index) {}

at::Tensor WhisperTimeStampLogitsProcessor::operator()(const at::Tensor& ids_BT, const at::Tensor& scores_BV) {
  const int64_t first_time = no_timestamps_ + 1, vocab = scores_BV.size(1);
  at::Tensor scores = scores_BV.clone();
  const auto forbid = [&](const at::Tensor& row, int64_t from, int64_t to) {
    if (from < to) row.narrow(-1, from, to - from).fill_(kNegativeInfinity);
  };
  forbid(scores, no_timestamps_, first_time);
  const at::Tensor ids = ids_BT.to(at::kCPU).contiguous();
  for (int64_t row = 0; row < ids.size(0); ++row) {
    const int64_t* const begin = ids.const_data_ptr<int64_t>() + row * ids.size(1) + begin_;
    const int64_t count = ids.size(1) - begin_;
    const bool last = count >= 1 && begin[count - 1] >= first_time;
    const bool one_before = count < 2 || begin[count - 2] >= first_time;
    if (last && one_before) forbid(scores[row], first_time, vocab);
    if (last && !one_before) forbid(scores[row], 0, eos_);
    for (int64_t i = count - 1; i >= 0; --i) {  // no time before the last one
      if (begin[i] < first_time) continue;
      forbid(scores[row], first_time, std::min(vocab, last && !one_before ? begin[i] : begin[i] + 1));
      break;
    }
  }
  if (ids.size(1) == begin_) {
    forbid(scores, 0, first_time);
    if (max_initial_) forbid(scores, std::min(vocab, first_time + *max_initial_ + 1), vocab);
  }
  const at::Tensor logs = scores.to(at::kFloat).log_softmax(-1);
  const at::Tensor time = logs.narrow(1, first_time, vocab - first_time).logsumexp(-1);
  const at::Tensor text = std::get<0>(logs.narrow(1, 0, first_time).max(-1));
  scores.narrow(1, 0, first_time).masked_fill_(time.gt(text).unsqueeze(-1), kNegativeInfinity);
  return scores;
}

}  // namespace easydel
