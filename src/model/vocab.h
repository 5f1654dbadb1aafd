#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

struct llama_model;

namespace pith {

struct ChatMessage {
  std::string role;  ///< system, user, assistant
  std::string content;
};

/// Tokens, chat template and special tokens, from libllama (vocab_only).
class Vocab {
 public:
  /// Throws Error(bad_file) where the file's tokenizer cannot be loaded.
  explicit Vocab(const std::string& gguf_path);
  ~Vocab();
  Vocab(const Vocab&) = delete;
  Vocab& operator=(const Vocab&) = delete;

  /// Throws Error(bad_file) naming the byte offset where `text` is not UTF-8.
  std::vector<int32_t> tokenize(std::string_view text, bool add_special, bool parse_special) const;
  std::string detokenize(std::span<const int32_t> tokens) const;
  /// Bytes of one token; may be part of a UTF-8 character.
  std::string piece(int32_t token) const;
  bool is_end(int32_t token) const;
  int size() const;
  bool has_chat_template() const;
  /// The conversation as the model's template writes it. Throws Error(unsupported) where the file
  /// has no template or libllama does not know it.
  std::string apply_chat_template(std::span<const ChatMessage> messages, bool add_assistant) const;

  const llama_model* handle() const { return model_; }

 private:
  llama_model* model_ = nullptr;
};

}  // namespace pith
