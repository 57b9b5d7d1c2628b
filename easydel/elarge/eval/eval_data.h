// The rows of a task, by split.
#pragma once

#include <set>
#include <string>

#include "easydel/data/sources/source.h"
#include "easydel/elarge/eval/eval_task.h"

namespace easydel {

// ConfigError when the task names no files for it or a path that is not local data. A path that the working directory
// does not have is looked up next to the task file. CSV columns whose cells are all numbers become numbers.
data::SourcePtr open_split(const EvalTask& task, const std::string& split);

// The names of a data set's fields, as the first rows have them.
std::set<std::string> fields_of(const data::Source& source);

}  // namespace easydel
