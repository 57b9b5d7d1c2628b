// SHA-256 and SHA-1 of bytes that come in pieces: OpenSSL's, or plain C++ in a build without it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace easydel {

class Sha {
 public:
  Sha(const Sha& other);
  Sha& operator=(const Sha& other);
  ~Sha();

  void update(const void* data, std::size_t size);
  void update(std::string_view text) { update(text.data(), text.size()); }
  std::string hex();  // the digest in lower-case hexadecimal; ends the hash, so call it once

 protected:
  enum class Kind { kSha1, kSha256 };
  explicit Sha(Kind kind);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

class Sha256 : public Sha {
 public:
  Sha256() : Sha(Kind::kSha256) {}
};

class Sha1 : public Sha {
 public:
  Sha1() : Sha(Kind::kSha1) {}
};

std::string to_hex(std::span<const uint8_t> bytes);
std::string sha256_hex(std::string_view content);
std::string sha256_of_file(const std::filesystem::path& path);  // IoError when it cannot be read

// The name that git gives to a file with this content.
std::string git_blob_hash(std::string_view content);

}  // namespace easydel
