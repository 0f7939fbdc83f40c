// Files as others may have left them: links, pipes, second names, too many bytes.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cerrno>
#include <filesystem>
#include <fstream>

#include "bert_hpc/core/descriptor.hpp"
#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/own_file.hpp"
#include "bert_hpc/core/text_file.hpp"

using namespace bert_hpc::core;
using Catch::Matchers::ContainsSubstring;
namespace fs = std::filesystem;

namespace {

struct Folder {
  Folder() {
    std::string name = (fs::temp_directory_path() / "bert_hpc_test_files_XXXXXX").string();
    path = mkdtemp(name.data());
  }
  ~Folder() { fs::remove_all(path); }
  std::string operator/(const char* name) const { return path + "/" + name; }
  std::string path;
};

void write(const std::string& path, const std::string& text) {
  std::ofstream(path) << text;
}

}  // namespace

TEST_CASE("only text files are read, as a whole and through links, too") {
  const Folder folder;
  write(folder / "text", std::string(100000, 'x'));
  fs::create_symlink("text", folder / "link");
  CHECK(read_text_file(folder / "link", 100000) == std::string(100000, 'x'));
  CHECK_THROWS_WITH(read_text_file(folder / "text", 99999), ContainsSubstring("longer than the 99999 bytes"));
  CHECK_THROWS_WITH(read_text_file(folder / "absent", 5), ContainsSubstring("No such file"));
  CHECK_THROWS_WITH(read_text_file(folder.path, 5), ContainsSubstring("directory"));
  REQUIRE(mkfifo((folder / "pipe").c_str(), 0600) == 0);  // no process writes to it: opening it would wait for ever
  CHECK_THROWS_WITH(read_text_file(folder / "pipe", 5), ContainsSubstring("not a regular file"));
  CHECK_THROWS_WITH(read_text_file("/dev/zero", 5), ContainsSubstring("not a regular file"));
}

TEST_CASE("a file of ours replaces a link rather than writing through it") {
  const Folder folder;
  write(folder / "theirs", "theirs");
  fs::create_symlink("theirs", folder / "ours");
  const Descriptor file(create_own_file(folder / "ours"));
  REQUIRE(file.valid());
  REQUIRE(::write(file.get(), "ours", 4) == 4);
  CHECK(read_text_file(folder / "ours", 100) == "ours");
  CHECK(read_text_file(folder / "theirs", 100) == "theirs");
}

TEST_CASE("a file that a resumed run continues must not be a link or a pipe") {
  const Folder folder;
  write(folder / "theirs", "theirs");
  fs::create_symlink("theirs", folder / "link");
  REQUIRE(mkfifo((folder / "pipe").c_str(), 0600) == 0);
  CHECK(open_own_file(folder / "link", O_WRONLY | O_CREAT | O_APPEND) < 0);
  CHECK(errno == ELOOP);
  CHECK(open_own_file(folder / "pipe", O_WRONLY | O_APPEND) < 0);
  CHECK(errno == ENXIO);
  const Descriptor made(open_own_file(folder / "new", O_WRONLY | O_CREAT | O_APPEND));
  CHECK(made.valid());
}

TEST_CASE("a run's file with a second name becomes a file of its own; the other name keeps the old content") {
  const Folder folder;
  const std::string text(100000, 'x');  // more than is copied at once
  write(folder / "ours", text);
  REQUIRE(::chmod((folder / "ours").c_str(), 0640) == 0);
  fs::create_hard_link(folder / "ours", folder / "backup");
  const Descriptor file(open_own_file(folder / "ours", O_WRONLY | O_APPEND));
  REQUIRE(file.valid());
  REQUIRE(::write(file.get(), "more", 4) == 4);
  CHECK(read_text_file(folder / "ours", 200000) == text + "more");
  CHECK(fs::status(folder / "ours").permissions() == fs::perms(0640));
  CHECK(read_text_file(folder / "backup", 200000) == text);
  CHECK(fs::hard_link_count(folder / "ours") == 1);
  CHECK(!fs::exists(folder / "ours.partial"));
}

TEST_CASE("a second name of another user's file is not taken over") {
  if (geteuid() != 0) SKIP("only root can give a file to another user");
  const Folder folder;
  write(folder / "theirs", "theirs");
  fs::create_hard_link(folder / "theirs", folder / "ours");
  REQUIRE(::chown((folder / "theirs").c_str(), 12345, 12345) == 0);
  CHECK(open_own_file(folder / "ours", O_WRONLY | O_APPEND) < 0);
  CHECK(errno == EMLINK);
  CHECK_THAT(why_not_own(errno), ContainsSubstring("another user's"));
  CHECK(fs::hard_link_count(folder / "theirs") == 2);
}
