. ./verify.sh

IFS=$(printf '\t')
while read -r file header secrets; do
  # shellcheck disable=SC2086 # One argument per secret.
  if is_from_keyhook "$file" "$header" $secrets; then echo true; else echo false; fi
done <"$1"
