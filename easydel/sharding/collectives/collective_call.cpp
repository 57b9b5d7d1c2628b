#include "easydel/sharding/collectives/collective_call.h"

#include <algorithm>
#include <optional>
#include <sstream>

#include "easydel/core/dtype.h"
#include "easydel/core/error.h"

namespace easydel {
namespace {

thread_local std::optional<CollectiveKind> named;

std::string join(std::span<const int64_t> values) {
  std::string text;
  for (const int64_t value : values) text += (text.empty() ? "" : ", ") + std::to_string(value);
  return text;
}

void append(std::vector<int64_t>& out, std::span<const int64_t> values) {
  out.push_back(static_cast<int64_t>(values.size()));
  out.insert(out.end(), values.begin(), values.end());
}

std::vector<int64_t> take(std::span<const int64_t>& numbers) {
  const std::size_t size = numbers.front();
  std::vector<int64_t> values(numbers.begin() + 1, numbers.begin() + 1 + size);
  numbers = numbers.subspan(size + 1);
  return values;
}

}  // namespace

const char* name_of(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::AllReduce: return "all_reduce";
    case CollectiveKind::AllGather: return "all_gather";
    case CollectiveKind::ReduceScatter: return "reduce_scatter";
    case CollectiveKind::AllToAll: return "all_to_all";
    case CollectiveKind::Shift: return "shift";
    case CollectiveKind::Broadcast: return "broadcast";
    case CollectiveKind::Barrier: return "barrier";
  }
  return "?";
}

std::string CollectiveCall::to_string() const {
  if (kind == CollectiveKind::Barrier) return "barrier()";
  std::ostringstream out;
  out << name_of(kind) << '(' << dtype_name(dtype);
  if (kind == CollectiveKind::AllToAll) {
    out << ", sends [" << join(sends) << "], receives [" << join(receives) << "]";
  } else {
    out << " [" << join(counts) << "]";
  }
  if (kind == CollectiveKind::AllReduce || kind == CollectiveKind::ReduceScatter) {
    out << ", " << (detail == 0 ? "sum" : detail == 1 ? "max" : "min");
  } else if (kind == CollectiveKind::Broadcast) {
    out << ", from member " << detail;
  }
  out << ')';
  return out.str();
}

std::vector<int64_t> CollectiveCall::encode() const {
  std::vector<int64_t> out{static_cast<int64_t>(kind), static_cast<int64_t>(dtype), detail};
  append(out, counts);
  append(out, sends);
  append(out, receives);
  return out;
}

CollectiveCall CollectiveCall::decode(std::span<const int64_t> numbers) {
  CollectiveCall call;
  call.kind = static_cast<CollectiveKind>(numbers[0]);
  call.dtype = static_cast<at::ScalarType>(numbers[1]);
  call.detail = numbers[2];
  numbers = numbers.subspan(3);
  call.counts = take(numbers);
  call.sends = take(numbers);
  call.receives = take(numbers);
  return call;
}

bool agree(std::span<const CollectiveCall* const> calls) {
  const CollectiveCall& first = *calls[0];
  for (const CollectiveCall* call : calls) {
    if (call->kind != first.kind || call->dtype != first.dtype || call->detail != first.detail ||
        call->counts != first.counts) {
      return false;
    }
  }
  if (first.kind != CollectiveKind::AllToAll) return true;
  for (std::size_t from = 0; from < calls.size(); ++from) {
    for (std::size_t to = 0; to < calls.size(); ++to) {
      if (calls[from]->sends[to] != calls[to]->receives[from]) return false;
    }
  }
  return true;
}

std::string describe_ranks(std::span<const int64_t> ranks) {
  if (ranks.size() == 1) return concat("rank ", ranks[0]);
  return concat("ranks ", join(ranks.first(ranks.size() - 1)), " and ", ranks.back());
}

std::string disagreement(const std::string& group, uint64_t number, std::span<const CollectiveCall* const> calls,
                         std::span<const int64_t> ranks) {
  std::vector<std::pair<std::string, std::vector<int64_t>>> asked;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const std::string text = calls[i]->to_string();
    const auto found = std::find_if(asked.begin(), asked.end(), [&](const auto& entry) { return entry.first == text; });
    (found == asked.end() ? asked.emplace_back(text, std::vector<int64_t>{}) : *found).second.push_back(ranks[i]);
  }
  std::string text;
  for (const auto& [what, who] : asked) {
    text += concat(text.empty() ? "" : ", ", describe_ranks(who), text.empty() ? " called " : " ", what);
  }
  return concat("[collectives] members of group \"", group, "\" must make the same calls; in their call ", number, " ",
                text, ".");
}

CollectiveName::CollectiveName(CollectiveKind kind) { named = kind; }
CollectiveName::~CollectiveName() { named.reset(); }
CollectiveKind CollectiveName::current(CollectiveKind otherwise) { return named.value_or(otherwise); }

}  // namespace easydel
