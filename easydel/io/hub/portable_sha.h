// SHA-256 and SHA-1 (FIPS 180-4) in plain C++, for a build without OpenSSL; some ten times slower than OpenSSL's.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace easydel {

class PortableSha {
 public:
  explicit PortableSha(bool is_sha256);

  void update(const void* data, std::size_t size);
  std::vector<uint8_t> digest();  // ends the hash; call it once

 private:
  void add_block();

  bool is_sha256_;
  std::array<uint32_t, 8> state_;  // SHA-1 has five words
  std::array<uint8_t, 64> block_{};
  uint64_t size_ = 0;  // bytes so far
};

}  // namespace easydel
