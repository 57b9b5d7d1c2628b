// Whether an answer follows the instructions of IFEval, by the rules of lm-evaluation-harness's tasks/ifeval.
#pragma once

#include <string>
#include <vector>

#include "easydel/data/sources/source.h"

namespace easydel {

struct FollowedInstructions {
  std::vector<bool> strict;  // of each instruction of the row
  std::vector<bool> loose;   // also without the first line, the last one, or asterisks
};

// The row has instruction_id_list, kwargs (an object for each of them) and prompt. FormatError names the row when it
// lacks one of these or an argument of an instruction; NotSupportedError when an instruction is not here: those that
// need a language detector or a sentence tokenizer.
FollowedInstructions follow_instructions(const data::Row& row, const std::string& answer);

}  // namespace easydel
