// Files of our own in a directory that somebody else may have prepared: what lies there under a name that we write to
// is replaced or refused, never written through. A link planted at RUN/log.txt must not lead into another file of the
// user's.
#pragma once

#include <string>

namespace bert_hpc::core {

/// A new file in place of whatever lies at `path` (a link goes, not what it points to). `flags` beside O_WRONLY; below
/// 0 with errno set where it cannot be.
int create_own_file(const std::string& path, int flags = 0);

/// The file at `path`, opened with `flags` (O_CREAT among them makes it). Where it has a second name, as in a copy made
/// of links, it first becomes a file of its own: the other name keeps what is there now. A link, a pipe, and a second
/// name of another user's file are refused: below 0, errno ELOOP, ENXIO or EMLINK.
int open_own_file(const std::string& path, int flags);

/// What this errno of open_own_file() says of the file, and the cure.
std::string why_not_own(int error);

}  // namespace bert_hpc::core
