#include "easydel/io/hub/hash.h"

#include <cerrno>
#include <fstream>
#include <vector>

#include "easydel/core/build_info.h"
#include "easydel/core/error.h"

#if EASYDEL_HAS_OPENSSL
#include <openssl/evp.h>
#else
#include "easydel/io/hub/portable_sha.h"
#endif

namespace easydel {

#if EASYDEL_HAS_OPENSSL
struct Sha::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();

  explicit State(Kind kind) {
    check(EVP_DigestInit_ex(context, kind == Kind::kSha256 ? EVP_sha256() : EVP_sha1(), nullptr));
  }
  State(const State& other) { check(EVP_MD_CTX_copy_ex(context, other.context)); }
  ~State() { EVP_MD_CTX_free(context); }

  void update(const void* data, std::size_t size) { check(EVP_DigestUpdate(context, data, size)); }
  std::vector<uint8_t> digest() {
    std::vector<uint8_t> result(EVP_MAX_MD_SIZE);
    unsigned size = 0;
    check(EVP_DigestFinal_ex(context, result.data(), &size));
    result.resize(size);
    return result;
  }
  static void check(int ok) { require<Error>(ok == 1, "[Sha] OpenSSL cannot compute a hash."); }
};
#else
struct Sha::State : PortableSha {
  explicit State(Kind kind) : PortableSha(kind == Kind::kSha256) {}
};
#endif

Sha::Sha(Kind kind) : state_(std::make_unique<State>(kind)) {}
Sha::Sha(const Sha& other) : state_(std::make_unique<State>(*other.state_)) {}
Sha& Sha::operator=(const Sha& other) {
  state_ = std::make_unique<State>(*other.state_);
  return *this;
}
Sha::~Sha() = default;

void Sha::update(const void* data, std::size_t size) { state_->update(data, size); }

std::string Sha::hex() { return to_hex(state_->digest()); }

std::string to_hex(std::span<const uint8_t> bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const uint8_t byte : bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

std::string sha256_hex(std::string_view content) {
  Sha256 hash;
  hash.update(content);
  return hash.hex();
}

std::string sha256_of_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  require<IoError>(file.is_open(), "[sha256] cannot open ", path.string(), ": ", errno_text(errno), ".");
  Sha256 hash;
  std::vector<char> buffer(1 << 20);
  while (file.read(buffer.data(), static_cast<std::streamsize>(buffer.size())) || file.gcount() > 0) {
    hash.update(buffer.data(), static_cast<std::size_t>(file.gcount()));
  }
  require<IoError>(file.eof(), "[sha256] cannot read ", path.string(), ": ", errno_text(errno), ".");
  return hash.hex();
}

std::string git_blob_hash(std::string_view content) {
  Sha1 hash;
  hash.update(concat("blob ", content.size()));
  hash.update("\0", 1);
  hash.update(content);
  return hash.hex();
}

}  // namespace easydel
