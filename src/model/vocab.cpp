#include "model/vocab.h"

#include <llama.h>

#include <algorithm>
#include <exception>
#include <limits>

#include "model/ggml_log.h"
#include "model/gguf_file.h"
#include "model/tokenizer_check.h"
#include "model/utf8.h"
#include "pith/error.hpp"

namespace pith {
namespace {

// libllama counts in int32_t; a token takes at least a byte, or a few are added around the text.
constexpr size_t kMaxText = std::numeric_limits<int32_t>::max() - 16;

const llama_vocab* vocab_of(const llama_model* model) { return llama_model_get_vocab(model); }

bool has_tokens(const llama_model* model) {
  return llama_vocab_type(vocab_of(model)) != LLAMA_VOCAB_TYPE_NONE;
}

void need_tokens(const llama_model* model) {
  if (!has_tokens(model)) throw Error(ErrorCode::unsupported, "the model has no tokenizer");
}

void need_known(int32_t token, int size) {
  if (token >= 0 && token < size) return;
  throw Error(ErrorCode::usage,
              "token " + std::to_string(token) + " of a vocabulary of " + std::to_string(size));
}

void need_utf8(std::string_view text) {
  if (const auto at = find_invalid_utf8(text)) {
    throw Error(ErrorCode::bad_file, "text is not UTF-8 at byte " + std::to_string(*at));
  }
}

bool has_zero(const std::string& text) { return text.find('\0') != std::string::npos; }

// libllama's functions throw C++ exceptions where a vocabulary lacks what they look up.
template <typename Call>
auto guarded(Call&& call) {
  try {
    return call();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw Error(ErrorCode::bad_file, std::string("tokenizer: ") + error.what());
  }
}

// Calls fill(buffer, capacity), which answers the size, or minus the size where it did not fit.
template <typename Buffer, typename Fill>
Buffer filled(Buffer buffer, Fill&& fill) {
  auto size = guarded([&] { return fill(buffer.data(), int32_t(buffer.size())); });
  if (size < 0 && size != std::numeric_limits<int32_t>::min()) {
    buffer.resize(size_t(-size));
    size = guarded([&] { return fill(buffer.data(), int32_t(buffer.size())); });
  }
  if (size < 0) throw Error(ErrorCode::memory, "text is too long for the tokenizer");
  buffer.resize(size_t(size));
  return buffer;
}

}  // namespace

Vocab::Vocab(const std::string& gguf_path) {
  silence_ggml();
  const GgufFile file(gguf_path);
  try {
    check_tokenizer(file.header());
    auto params = llama_model_default_params();
    params.vocab_only = true;
    model_ = guarded([&] { return llama_model_load_from_file(gguf_path.c_str(), params); });
    if (model_ == nullptr) throw Error(ErrorCode::bad_file, "libllama cannot load its tokenizer");
  } catch (const Error& error) {
    throw Error(error.code(), gguf_path + ": " + error.what());
  }
}

Vocab::~Vocab() { llama_model_free(model_); }

std::vector<int32_t> Vocab::tokenize(std::string_view text, bool add_special,
                                     bool parse_special) const {
  need_tokens(model_);
  if (text.size() > kMaxText) throw Error(ErrorCode::memory, "text is too long for the tokenizer");
  need_utf8(text);
  // Room for four bytes a token at first; filled() makes more where needed.
  return filled(std::vector<int32_t>(text.size() / 4 + 16), [&](int32_t* tokens, int32_t room) {
    return llama_tokenize(vocab_of(model_), text.data(), int32_t(text.size()), tokens, room,
                          add_special, parse_special);
  });
}

std::string Vocab::detokenize(std::span<const int32_t> tokens) const {
  need_tokens(model_);
  for (const int32_t token : tokens) need_known(token, size());
  if (tokens.size() > kMaxText) throw Error(ErrorCode::memory, "too many tokens");
  return filled(std::string(tokens.size() * 4 + 16, '\0'), [&](char* text, int32_t room) {
    return llama_detokenize(vocab_of(model_), tokens.data(), int32_t(tokens.size()), text, room,
                            false, true);
  });
}

std::string Vocab::piece(int32_t token) const {
  need_tokens(model_);
  need_known(token, size());
  return filled(std::string(16, '\0'), [&](char* text, int32_t room) {
    return llama_token_to_piece(vocab_of(model_), token, text, room, 0, true);
  });
}

bool Vocab::is_end(int32_t token) const {
  return has_tokens(model_) && llama_vocab_is_eog(vocab_of(model_), token);
}

int Vocab::size() const { return llama_vocab_n_tokens(vocab_of(model_)); }

bool Vocab::has_chat_template() const {
  return llama_model_chat_template(model_, nullptr) != nullptr;
}

std::string Vocab::apply_chat_template(std::span<const ChatMessage> messages,
                                       bool add_assistant) const {
  const char* source = llama_model_chat_template(model_, nullptr);
  if (source == nullptr) throw Error(ErrorCode::unsupported, "the model has no chat template");
  std::vector<llama_chat_message> chat;
  size_t bytes = 256;
  for (const ChatMessage& message : messages) {
    // libllama takes C strings.
    if (has_zero(message.role) || has_zero(message.content)) {
      throw Error(ErrorCode::bad_file, "a chat message has a zero byte");
    }
    chat.push_back({message.role.c_str(), message.content.c_str()});
    bytes += 2 * (message.role.size() + message.content.size());
  }
  if (bytes > kMaxText) throw Error(ErrorCode::memory, "chat is too long");
  return filled(std::string(bytes, '\0'), [&](char* text, int32_t room) {
    const auto size =
        llama_chat_apply_template(source, chat.data(), chat.size(), add_assistant, text, room);
    if (size < 0) {
      throw Error(ErrorCode::unsupported, "libllama does not know the model's chat template");
    }
    return size > room ? -size : size;
  });
}

}  // namespace pith
