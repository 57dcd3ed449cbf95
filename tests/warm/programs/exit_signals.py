# call: -c "import os; os.abort()"
# exit: -6
