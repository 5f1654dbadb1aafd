#include "model/tokenizer_check.h"

#include <string>
#include <unordered_set>

#include "model/gguf_keys.h"
#include "pith/error.hpp"

namespace pith {
namespace {

[[noreturn]] void fail(const std::string& what) { throw Error(ErrorCode::bad_file, what); }

// libllama asserts that texts are unique, having named the empty ones so.
void check_unique(const GgufKeys& keys, const std::string& tokens, int64_t count) {
  std::unordered_set<std::string> seen;
  for (int64_t id = 0; id < count; ++id) {
    std::string text = keys.array_text(tokens, id);
    if (text.empty()) text = "[EMPTY_" + std::to_string(id) + "]";
    if (!seen.insert(std::move(text)).second) {
      fail("token " + std::to_string(id) + " of " + tokens + " occurs twice");
    }
  }
}

void check_per_token(const GgufKeys& keys, const char* key, gguf_type type, int64_t count) {
  if (const auto size = keys.array_size(key, type); size && *size != count) {
    fail(std::string("key ") + key + " has " + std::to_string(*size) + " values for " +
         std::to_string(count) + " tokens");
  }
}

// An absent identifier has libllama's default.
void check_special(const GgufKeys& keys, const char* key, int64_t otherwise, int64_t count) {
  const int64_t id = keys.integer(key).value_or(otherwise);
  if (id < 0 || id >= count) {
    fail(std::string("key ") + key + ": token " + std::to_string(id) + " of " +
         std::to_string(count));
  }
}

}  // namespace

void check_tokenizer(const gguf_context* header) {
  const GgufKeys keys(header);
  const auto model = keys.text("tokenizer.ggml.model");
  if (!model) fail("key tokenizer.ggml.model is missing");
  if (*model == "no_vocab" || *model == "none") return;
  const bool bpe = *model == "gpt2";
  if (!bpe && *model != "llama") {
    throw Error(ErrorCode::unsupported, "tokenizer \"" + *model + "\"; known: gpt2, llama");
  }
  const std::string tokens = "tokenizer.ggml.tokens";
  const auto count = keys.array_size(tokens, GGUF_TYPE_STRING);
  if (!count || *count == 0) fail("key " + tokens + " is missing or empty");
  check_unique(keys, tokens, *count);
  check_per_token(keys, "tokenizer.ggml.scores", GGUF_TYPE_FLOAT32, *count);
  check_per_token(keys, "tokenizer.ggml.token_type", GGUF_TYPE_INT32, *count);
  keys.array_size("tokenizer.ggml.merges", GGUF_TYPE_STRING);
  check_special(keys, "tokenizer.ggml.bos_token_id", bpe ? 11 : 1, *count);
  check_special(keys, "tokenizer.ggml.eos_token_id", bpe ? 11 : 2, *count);
}

}  // namespace pith
