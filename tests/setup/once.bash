# For scripts that make things which do not depend on the commit, and which take long: each is made once for its recipe.

# once PRODUCT WORDS FUNCTION [FUNCTION...]: call the first function with the product's name, unless PRODUCT has the same
# recipe: the text of the functions, and words such as versions. A product of another recipe is removed first. So no test
# uses it if the new one cannot be made.
once() {
    local product=$1 words=$2 recipe
    shift 2
    recipe=$({ echo "$words"; declare -f "$@"; } | sha256sum)
    if [[ -e $product && $(cat "$product.recipe" 2>/dev/null) == "$recipe" ]]; then return; fi
    rm -rf "$product" "$product.recipe"
    mkdir -p "${product%/*}"
    "$1" "${product##*/}" >&2
    echo "$recipe" >"$product.recipe"
}
