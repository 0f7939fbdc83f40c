// Memory of arrays that was reserved by a guess.
#pragma once

#include <vector>

namespace bert_hpc::core {

/// Gives back what the array does not use, where that is more than a fifth: giving back copies the array.
template <class T>
void give_back_spare(std::vector<T>& array) {
  if (array.capacity() / 5 * 4 > array.size()) array.shrink_to_fit();
}

}  // namespace bert_hpc::core
