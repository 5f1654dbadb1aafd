#include "eval/output_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "pith/error.hpp"

namespace pith {
namespace {

namespace fs = std::filesystem;

class OutputFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("pith-output-" + std::to_string(getpid()));
    fs::create_directory(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  static std::string content(const std::string& path) {
    std::ostringstream out;
    out << std::ifstream(path).rdbuf();
    return out.str();
  }
  long files() const { return std::distance(fs::directory_iterator(folder_), {}); }

  fs::path folder_;
};

TEST_F(OutputFileTest, AppearsWholeOnCommit) {
  OutputFile file(path("a.json"));
  EXPECT_FALSE(fs::exists(path("a.json")));
  file.commit("{}");
  EXPECT_EQ(content(path("a.json")), "{}");
  EXPECT_EQ(files(), 1);
}

TEST_F(OutputFileTest, WithoutCommitTheOldFileStays) {
  std::ofstream(path("a.json")) << "old";
  {
    const OutputFile file(path("a.json"));
  }
  EXPECT_EQ(content(path("a.json")), "old");
  EXPECT_EQ(files(), 1);
}

TEST_F(OutputFileTest, FollowsSymbolicLinks) {
  std::ofstream(path("target")) << "old";
  fs::create_symlink(path("target"), path("link"));
  OutputFile(path("link")).commit("new");
  EXPECT_TRUE(fs::is_symlink(path("link")));
  EXPECT_EQ(content(path("target")), "new");
}

TEST_F(OutputFileTest, UnwritablePlacesAreErrorsAtOnce) {
  EXPECT_THROW(OutputFile(path("no/such/folder.json")), Error);
  EXPECT_THROW(OutputFile{folder_.string()}, Error);
}

TEST_F(OutputFileTest, FullDiskIsAnError) {
  OutputFile file("/dev/full");
  try {
    file.commit("content");
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::io);
    EXPECT_THAT(e.what(), ::testing::HasSubstr("/dev/full"));
  }
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
}

}  // namespace
}  // namespace pith
