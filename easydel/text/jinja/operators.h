// Python's operators and protocols on values. All of these raise Failure where Python raises an exception.
#pragma once

#include <cstdint>

#include <optional>
#include <string_view>

#include "easydel/text/jinja/runtime.h"
#include "easydel/text/jinja/syntax/ast.h"

namespace easydel::jinja {

bool truth(Runtime& runtime, const Value& value);
bool equal(Runtime& runtime, const Value& a, const Value& b);
bool same_text(Runtime& runtime, std::string_view a, std::string_view b);
bool less(Runtime& runtime, const Value& a, const Value& b, Operator op = Operator::Less);  // any of <, <=, >, >=
bool compare(Runtime& runtime, Operator op, const Value& a, const Value& b);
bool contains(Runtime& runtime, const Value& container, const Value& value);
std::size_t hash_of(Runtime& runtime, const Value& value);

Value binary(Runtime& runtime, Operator op, const Value& a, const Value& b);
Value negative(const Value& value);
Value positive(const Value& value);
Value repeat(Runtime& runtime, const Value& sequence, int64_t times);

// Raises with the message of an undefined value, as any use of it does.
void refuse_undefined(const Value& value);
// The same where only StrictUndefined raises: printing, looping, counting, comparing, truth testing.
void refuse_strictly(const Runtime& runtime, const Value& value);

std::optional<int64_t> length(Runtime& runtime, const Value& value);  // nullopt: it has none
int64_t require_length(Runtime& runtime, const Value& value);

int64_t loop_length(Runtime& runtime, LoopData& loop);

// Iterates over any iterable; raises when the value is not iterable.
GeneratorData* iterate(Runtime& runtime, const Value& value);
bool is_iterable(const Value& value);
Values to_values(Runtime& runtime, const Value& value);

Value dict_get(Runtime& runtime, const DictData& dict, const Value& key);  // missing when absent
void dict_set(Runtime& runtime, DictData& dict, const Value& key, const Value& value);
Value dict_get(Runtime& runtime, const DictData& dict, std::string_view key);

// Stable, by the first of each pair; like sorted(), it only uses "less than" on keys.
void sort_by_key(Runtime& runtime, std::vector<std::pair<Value, Value>>& entries);

// Strings of one character, and parts of a string by character.
Value substring(Runtime& runtime, const Value& text, int64_t begin, int64_t end);
Value range_item(const RangeData& range, int64_t index);

std::string escape_html(std::string_view text);

int64_t checked_add(int64_t a, int64_t b);
int64_t checked_multiply(int64_t a, int64_t b);

}  // namespace easydel::jinja
