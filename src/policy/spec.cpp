#include "policy/spec.h"

#include <algorithm>
#include <cctype>

#include "pith/error.hpp"
#include "policy/text.h"

namespace pith {

namespace {

constexpr size_t kMostBytes = 512;

class SpecReader {
 public:
  explicit SpecReader(std::string_view text) : text_(text) {}

  Spec read() {
    Spec spec{.score = part("a policy"), .parts = {}};
    while (accept('+')) spec.parts.push_back(part("a wrapper or a budget rule"));
    if (!rest().empty()) refuse("the end or '+'");
    return spec;
  }

 private:
  SpecPart part(const std::string& what) {
    SpecPart out{.name = word(what), .arguments = {}};
    if (!accept('(') || accept(')')) return out;
    do {
      argument(out);
    } while (accept(','));
    if (!accept(')')) refuse("',' or ')'");
    return out;
  }

  void argument(SpecPart& to) {
    const std::string knob = word("a knob");
    if (!accept('=')) refuse("'=' after " + quote(knob));
    const auto same = [&](const auto& argument) { return argument.first == knob; };
    if (std::any_of(to.arguments.begin(), to.arguments.end(), same)) {
      throw Error(ErrorCode::usage, "policy " + quote(text_) + " gives " + quote(knob) + " twice");
    }
    to.arguments.emplace_back(knob, word("a value"));
  }

  /// Letters, digits and what numbers need; signs only inside, so that '+' can join the parts.
  std::string word(const std::string& what) {
    const std::string_view left = rest();
    size_t length = 0;
    while (length < left.size() && belongs(left, length)) ++length;
    if (length == 0) refuse(what);
    at_ += length;
    return std::string(left.substr(0, length));
  }

  static bool belongs(std::string_view word, size_t i) {
    const auto c = static_cast<unsigned char>(word[i]);
    if (std::isalnum(c) != 0 || c == '_' || c == '.' || c == '-') return true;
    const bool exponent = i > 1 && (word[i - 1] == 'e' || word[i - 1] == 'E') &&
                          std::isalpha(static_cast<unsigned char>(word[0])) == 0;
    return c == '+' && exponent;
  }

  bool accept(char c) {
    const std::string_view left = rest();
    if (left.empty() || left.front() != c) return false;
    ++at_;
    return true;
  }

  /// What is not read yet, from the next character that is no space.
  std::string_view rest() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    return text_.substr(at_);
  }

  [[noreturn]] void refuse(const std::string& expected) const {
    const std::string where = at_ < text_.size() ? "at " + quote(text_.substr(at_)) : "at its end";
    throw Error(ErrorCode::usage,
                "policy " + quote(text_) + ": expected " + expected + " " + where);
  }

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

Spec parse_spec(std::string_view text) {
  if (text.size() > kMostBytes) {
    throw Error(ErrorCode::usage, "policy " + quote(text) + " is longer than 512 bytes");
  }
  return SpecReader(text).read();
}

}  // namespace pith
