#pragma once

#include <stdexcept>
#include <string>

namespace pith {

/// What kind of thing went wrong; the tool maps `usage` to exit code 2 and the rest to 1.
enum class ErrorCode {
  usage,        ///< the caller's words are off: unknown policy, malformed budget, bad flag
  bad_file,     ///< a file exists but does not hold what it should (GGUF, rows, UTF-8)
  unsupported,  ///< well-formed, but pith cannot run it (architecture, weight type, mix of options)
  budget,       ///< the budget cannot be met for this prompt
  memory,       ///< it would not fit: context, cache or scratch
  io,           ///< the system refused: missing file, unwritable output, full disk
  interrupted,  ///< a progress callback asked to stop
  internal      ///< a bug in pith
};

/// The one exception pith throws. `what()` is one line: what failed, where, and what would help.
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ErrorCode code() const { return code_; }

 private:
  ErrorCode code_;
};

}  // namespace pith
