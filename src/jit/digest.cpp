#include "jit/digest.hpp"

#include <openssl/evp.h>

#include <memory>

#include "jit/embedded_sources.hpp"

namespace tandem::jit {
namespace {

class Sha256 {
 public:
  Sha256() : context_(EVP_MD_CTX_new(), &EVP_MD_CTX_free) { EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr); }

  void add(std::string_view part) {
    const std::string length = std::to_string(part.size()) + ":";
    EVP_DigestUpdate(context_.get(), length.data(), length.size());
    EVP_DigestUpdate(context_.get(), part.data(), part.size());
  }

  std::string hex() {
    unsigned char bytes[EVP_MAX_MD_SIZE];
    unsigned int count = 0;
    EVP_DigestFinal_ex(context_.get(), bytes, &count);
    constexpr char kDigits[] = "0123456789abcdef";
    std::string text;
    for (unsigned int i = 0; i < count; ++i) text += {kDigits[bytes[i] >> 4], kDigits[bytes[i] & 15]};
    return text;
  }

 private:
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context_;
};

}  // namespace

std::string sha256(std::initializer_list<std::string_view> parts) {
  Sha256 digest;
  for (const std::string_view part : parts) digest.add(part);
  return digest.hex();
}

const std::string& sources_digest() {
  static const std::string text = [] {
    Sha256 digest;
    for (const EmbeddedSource& source : embedded_sources()) {
      digest.add(source.path);
      digest.add(source.text);
    }
    return digest.hex();
  }();
  return text;
}

}  // namespace tandem::jit
