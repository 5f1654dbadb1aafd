#pragma once

#include <string>

#include "support/temp_file.h"

namespace pith::test {

/// A GGUF file written again with every weight as F32, removed with the holder.
class DequantizedModel {
 public:
  explicit DequantizedModel(const std::string& path);

  const std::string& path() const { return file_.path(); }

 private:
  TempFile file_;
};

}  // namespace pith::test
