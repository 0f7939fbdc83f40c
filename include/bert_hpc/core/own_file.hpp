// Files of our own in a directory that somebody else may have prepared: what lies there under a name that we write to
// is replaced or refused, never written through. A link planted at RUN/log.txt must not lead into another file of the
// user's.
#pragma once

#include <string>

namespace bert_hpc::core {

/// A new file in place of whatever lies at `path` (a link goes, not what it points to). `flags` beside O_WRONLY; below
/// 0 with errno set where it cannot be.
int create_own_file(const std::string& path, int flags = 0);

/// The file at `path`, opened with `flags` (O_CREAT among them makes it). A link, a pipe, and a file that has a second
/// name are refused: below 0, errno ELOOP, ENXIO or EMLINK.
int open_own_file(const std::string& path, int flags);

}  // namespace bert_hpc::core
