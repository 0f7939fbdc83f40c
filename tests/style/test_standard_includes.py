"""Headers include what they use of the standard library, themselves or by other headers of the project: headers_alone leaves out
what another header includes first, behind standard headers, so that the compiler does not see it. Names that are not in the table
are not checked."""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)

# Standard header → names that it declares; where several do, one is enough.
NAMES = {
    "algorithm": "all_of any_of clamp copy copy_if copy_n count count_if equal fill fill_n find find_if lower_bound max max_element min none_of sort "
                 "stable_sort transform upper_bound",
    "any": "any any_cast",
    "array": "array begin end get size ssize",
    "atomic": "atomic atomic_flag memory_order_relaxed",
    "bit": "bit_cast bit_ceil countr_zero endian",
    "charconv": "from_chars to_chars",
    "chrono": "chrono",
    "cmath": "abs ceil cos exp floor isfinite isnan log pow round sin sqrt",
    "condition_variable": "condition_variable",
    "cstddef": "byte max_align_t",
    "cstdint": "int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t uintptr_t",
    "cstdio": "FILE fclose fflush fprintf",
    "cstdlib": "abs getenv",
    "cstring": "memcpy memset strerror strlen",
    "deque": "deque",
    "exception": "current_exception exception exception_ptr rethrow_exception uncaught_exceptions",
    "filesystem": "error_code filesystem string",
    "fstream": "ifstream ofstream ostream",
    "functional": "function hash less minus plus reference_wrapper",
    "future": "async future promise",
    "initializer_list": "initializer_list",
    "iosfwd": "ostream",
    "iostream": "ostream",
    "iterator": "back_inserter begin end size ssize",
    "limits": "numeric_limits",
    "map": "map multimap pair",
    "memory": "addressof default_delete make_shared make_unique shared_ptr unique_ptr weak_ptr",
    "mutex": "call_once lock_guard mutex once_flag scoped_lock unique_lock",
    "numeric": "accumulate iota partial_sum",
    "optional": "nullopt optional",
    "ostream": "ostream",
    "set": "multiset set",
    "source_location": "source_location",
    "span": "as_bytes as_writable_bytes begin end size span ssize",
    "sstream": "istringstream ostream ostringstream",
    "stdexcept": "exception invalid_argument logic_error out_of_range runtime_error",
    "string": "begin end getline hash initializer_list size ssize string string_view to_string u32string",
    "string_view": "hash string_view u32string_view",
    "system_error": "errc error_code",
    "thread": "jthread this_thread thread",
    "tuple": "apply get tie tuple",
    "type_traits": "conditional_t decay_t enable_if_t invoke_result_t is_arithmetic_v is_const_v is_convertible_v is_enum_v is_same_v is_void_v "
                   "remove_const_t remove_cv_t type_identity_t",
    "unordered_map": "pair unordered_map unordered_multimap",
    "unordered_set": "unordered_set",
    "utility": "exchange forward get in_place index_sequence make_index_sequence move pair swap",
    "variant": "get variant visit",
    "vector": "begin end initializer_list size ssize vector",
}
HEADERS_OF = {}
for header, names in NAMES.items():
    for name in names.split():
        HEADERS_OF.setdefault(name, set()).add(header)


def lacking(text, included):
    """Names of std that `text` uses and that none of the standard headers `included` declares."""
    code = re.sub(r"//.*", "", text)
    used = sorted(set(re.findall(r"\bstd::(\w+)", code)))
    return [name for name in used if name in HEADERS_OF and not HEADERS_OF[name] & included]


class Closures:
    """The standard headers that a header includes, also by other headers of the project."""

    def __init__(self, bases):
        self.bases, self.known = bases, {}

    def of(self, path):
        if path not in self.known:
            self.known[path] = set()  # of a header that includes itself
            found = set()
            for kind, name in INCLUDE.findall(path.read_text()):
                near = [base / name for base in (path.parent, *self.bases) if (base / name).is_file()]
                if kind == "<":
                    found.add(name)
                elif near:
                    found |= self.of(near[0].resolve())
            self.known[path] = found
        return self.known[path]


assert lacking("std::string a; // std::vector\nstd::unknown b;", set()) == ["string"] and not lacking("std::pair<int, int> a;", {"map"})
closures = Closures((ROOT / "include", ROOT / "src"))
problems, count = [], 0
for base in closures.bases:
    for path in sorted(base.rglob("*.hpp")):
        count += 1
        for name in lacking(path.read_text(), closures.of(path.resolve())):
            headers = " or ".join(f"<{header}>" for header in sorted(HEADERS_OF[name]))
            problems.append(f"{path.relative_to(ROOT)}: uses std::{name} without {headers}")
print("\n".join(problems) or f"{count} headers include what they use of the standard library")
sys.exit(1 if problems or count == 0 else 0)
