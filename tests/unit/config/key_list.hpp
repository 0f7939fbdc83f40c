// Lists the keys that visit_keys() visits, as "table.key".
#pragma once

#include <string>
#include <vector>

#include "bert_hpc/config/toml_reader.hpp"

class KeyList : public bert_hpc::config::TomlKeys {
  using Range = bert_hpc::config::Range;
  using Choices = bert_hpc::config::Choices;
  template <class T>
  using Maybe = std::optional<T>;

 public:
  using Keys = bert_hpc::config::TomlKeys;
  std::vector<std::string> names;

  Keys& table(const std::string& name) override {
    table_ = name;
    return *this;
  }
  Keys& key(const char* name, bool&) override { return add(name); }
  Keys& key(const char* name, std::int64_t&, const Range&) override { return add(name); }
  Keys& key(const char* name, double&, const Range&) override { return add(name); }
  Keys& key(const char* name, std::string&, const Choices&) override { return add(name); }
  Keys& key(const char* name, std::vector<std::string>&) override { return add(name); }
  Keys& key(const char* name, std::string&, std::vector<std::string>&) override { return add(name); }
  Keys& key(const char* name, std::vector<double>&, const Range&) override { return add(name); }
  Keys& key(const char* name, std::vector<double>&, const Range&, std::string&, const Choices&) override {
    return add(name);
  }
  Keys& key(const char* name, Maybe<bool>&) override { return add(name); }
  Keys& key(const char* name, Maybe<std::int64_t>&, const Range&) override { return add(name); }
  Keys& key(const char* name, Maybe<double>&, const Range&) override { return add(name); }
  Keys& key(const char* name, Maybe<std::string>&, const Choices&) override { return add(name); }
  Keys& required() override { return *this; }

 private:
  Keys& add(const char* name) {
    names.push_back(table_ + '.' + name);
    return *this;
  }

  std::string table_;
};
