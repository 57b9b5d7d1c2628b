// Incremental SHA-256 and SHA-1 (FIPS 180-4); uses the CPU's SHA instructions where available.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace easydel {

// Shared by both: blocks of 64 bytes and a length in bits after the message. `digest` ends the hash; call it once.
template <std::size_t kWords>
class Sha {
 public:
  using Digest = std::array<uint8_t, kWords * 4>;

  void update(const void* data, std::size_t size);
  void update(std::string_view text) { update(text.data(), text.size()); }
  Digest digest();
  std::string hex();  // the digest in lower-case hexadecimal

 protected:
  using State = std::array<uint32_t, kWords>;
  using Compress = void (*)(State& state, const uint8_t* blocks, std::size_t count);
  Sha(const State& initial, Compress compress) : state_(initial), compress_(compress) {}

 private:
  State state_;
  Compress compress_;
  std::array<uint8_t, 64> block_{};
  uint64_t size_ = 0;  // bytes so far
};

class Sha256 : public Sha<8> {
 public:
  explicit Sha256(bool use_cpu_instructions = true);
};

class Sha1 : public Sha<5> {
 public:
  explicit Sha1(bool use_cpu_instructions = true);
};

bool cpu_has_sha_instructions();

std::string to_hex(std::span<const uint8_t> bytes);
std::string sha256_hex(std::string_view content);
std::string sha256_of_file(const std::filesystem::path& path);  // IoError when it cannot be read

// The name that git gives to a file with this content.
std::string git_blob_hash(std::string_view content);

}  // namespace easydel
