#include "support/packaged_model.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace pith::test {
namespace {

std::string variable(const char* name, const std::string& fallback) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : fallback;
}

}  // namespace

std::string packaged_model() {
  const std::string caches = variable("XDG_CACHE_HOME", variable("HOME", "") + "/.cache");
  const std::string path =
      variable("PITH_CACHE", caches + "/pith") + "/models/SmolLM2-135M-Instruct.Q4_1.gguf";
  EXPECT_TRUE(std::filesystem::exists(path)) << path << " is missing: run make setup";
  return path;
}

std::string long_text() {
  std::ifstream file("/usr/share/common-licenses/GPL-3");
  EXPECT_TRUE(file.good()) << "the GPL-3 text of Debian's base-files is missing";
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace pith::test
