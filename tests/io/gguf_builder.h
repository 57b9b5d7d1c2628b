// GGUF files built byte by byte, so that a test can corrupt any of them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace easydel {

class GgufBytes {
 public:
  template <class T>
  GgufBytes& put(T value) {
    text_.append(reinterpret_cast<const char*>(&value), sizeof(T));
    return *this;
  }
  GgufBytes& raw(const std::string& bytes) {
    text_ += bytes;
    return *this;
  }
  GgufBytes& string(const std::string& text) { return put<uint64_t>(text.size()).raw(text); }
  GgufBytes& header(uint64_t tensors, uint64_t entries, uint32_t version = 3) {
    return raw("GGUF").put(version).put(tensors).put(entries);
  }
  GgufBytes& tensor(const std::string& name, const std::vector<uint64_t>& dims, uint32_t type, uint64_t offset) {
    string(name).put<uint32_t>(static_cast<uint32_t>(dims.size()));
    for (const uint64_t dim : dims) put(dim);
    return put(type).put(offset);
  }
  // The data, at the next multiple of the alignment.
  GgufBytes& data(std::size_t size, std::size_t alignment = 32) {
    while (text_.size() % alignment != 0) text_ += '\0';
    text_ += std::string(size, '\0');
    return *this;
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

}  // namespace easydel
