// Safe creation of our files in a directory that another user may have prepared. Existing links and special files under
// our names are replaced or rejected, never followed: a link planted at RUN/log.txt must not lead into another file of
// the user's.
#pragma once

#include <string>

namespace bert_hpc::core {

/// Creates a new file and replaces whatever lies at `path` (a link is removed, not its target). `flags` are added to
/// O_WRONLY. Returns a negative descriptor and sets errno on failure.
int create_own_file(const std::string& path, int flags = 0);

/// Opens the file at `path` with `flags` (O_CREAT creates it). If the file has several hard links, as in a copy made of
/// links, it is first copied to a file of its own; the other names keep the old content. Rejects symbolic links, pipes
/// and hard links to another user's file: a negative descriptor, errno ELOOP, ENXIO or EMLINK.
int open_own_file(const std::string& path, int flags);

/// Explains an errno of open_own_file() and gives a remedy.
std::string why_not_own(int error);

}  // namespace bert_hpc::core
