// Normalizers, applied to a text before it is split: one class for each type of tokenizer.json's "normalizer".
#pragma once

#include <memory>

#include "easydel/tokenizers/files/json_field.h"
#include "easydel/tokenizers/pipeline/aligned_text.h"

namespace easydel {

class Normalizer {
 public:
  virtual ~Normalizer() = default;
  virtual void normalize(AlignedText& text) const = 0;
  // Whether its result can depend on the origin of its characters, so that alignment is kept even for ids alone.
  virtual bool needs_alignment() const { return false; }
};

// FormatError with the path of what is wrong. NotSupportedError when the build lacks a library that it needs.
std::unique_ptr<Normalizer> make_normalizer(const JsonField& field);

void lowercase(AlignedText& text);

// The types defined in separate files.
std::unique_ptr<Normalizer> make_precompiled(const JsonField& field);
std::unique_ptr<Normalizer> make_bert_normalizer(const JsonField& field);

}  // namespace easydel
