. ./verify.sh

tab=$(printf '\t')
while IFS= read -r line; do
  rest=${line#*"$tab"}
  if is_from_keyhook "${line%%"$tab"*}" "${rest%"$tab"*}" "${rest#*"$tab"}"; then echo true; else echo false; fi
done <"$1"
